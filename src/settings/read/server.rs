//! Reads `server`, and by which names `admin` may be asked.

use super::Reader;
use crate::diagnostic::Diagnostic;
use crate::document::Value;
use crate::settings::Server;

impl Reader<'_> {
    pub(super) fn server(&mut self, default: &Server) -> Server {
        Server {
            drain: self.duration("server.drain").unwrap_or(default.drain),
            max_connections: self.integer("server.max_connections").unwrap_or(default.max_connections),
            max_concurrent_streams: self.integer("server.max_concurrent_streams").unwrap_or(default.max_concurrent_streams),
            max_message: self.size("server.max_message").unwrap_or(default.max_message),
        }
    }

    /// Names alone: the port does not matter, and a pattern would let in what nobody has thought of.
    pub(super) fn admin_hosts(&mut self) -> Option<Vec<String>> {
        let node = self.at("admin_hosts").filter(|node| matches!(node.value, Value::List(_)))?;
        let mut names = Vec::new();
        for item in node.items() {
            let Some(name) = item.text() else { continue };
            if !is_host_name(name) {
                let message = "`admin_hosts` takes host names without a port, as in `cascade.monitoring.svc`";
                self.found.push(Diagnostic::error("bad-value", &item.place, message));
            }
            names.push(name.to_owned());
        }
        Some(names)
    }
}

fn is_host_name(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte))
}
