//! All addresses of the settings, bound, and what has to be said of those that others reach. What is served there is not known here.

use tracing::warn;

use super::ServeError;
use super::listener::Listener;
use super::routes::Door;
use crate::settings::{Address, Settings};

/// The bound sockets.
#[derive(Debug)]
pub struct Listeners {
    pub(super) listen: Listener,
    /// `feedback.listen`.
    pub(super) log: Option<Listener>,
    pub(super) admin: Listener,
    pub(super) probe: Option<Listener>,
}

impl Listeners {
    /// Binds every address of the settings.
    ///
    /// # Errors
    /// Names the setting and the address that cannot be had.
    pub async fn bind(settings: &Settings) -> Result<Self, ServeError> {
        let bind = async |setting, address: &Address| {
            let bound = Listener::bind(address).await;
            bound.map_err(|error| ServeError::Bind { setting, address: address.clone(), error })
        };
        let listen = bind("listen", &settings.listen).await?;
        let log = match settings.feedback.listen.as_ref().filter(|_| settings.feedback.enabled) {
            Some(address) => Some(bind("feedback.listen", address).await?),
            None => None,
        };
        let admin = bind("admin", &settings.admin).await?;
        let probe = match &settings.probe {
            Some(address) => Some(bind("probe", address).await?),
            None => None,
        };
        Ok(Self { listen, log, admin, probe })
    }
}

/// gRPC is not encrypted and asks nobody who they are.
pub(super) fn warn_if_open(listener: &Listener, door: Door, feedback: bool) {
    if listener.is_local() {
        return;
    }
    let address = listener.shown();
    match door {
        Door::Both if feedback => warn!(
            address,
            "anyone who reaches {address} can ask for decisions, and send log entries that cool clusters: there is no TLS. Let a \
             network policy admit Envoy alone, or use a Unix socket; `feedback.listen` gives the access log an address of its own"
        ),
        Door::Both | Door::Requests => warn!(
            address,
            "anyone who reaches {address} can ask for decisions: there is no TLS. Let a network policy admit Envoy alone, or use a \
             Unix socket"
        ),
        Door::Log => warn!(
            address,
            "anyone who reaches {address} (feedback.listen) can send log entries that cool clusters: there is no TLS. Let a network \
             policy admit Envoy alone, or use a Unix socket"
        ),
    }
}
