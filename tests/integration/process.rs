//! A `cascade` child process: its output is captured and shown if the test fails, and it never outlives the test.

use std::fmt::Debug;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::http::{self, Response};

/// How long anything may take. The machine may be busy; what is broken fails all the same.
pub const LIMIT: Duration = Duration::from_secs(20);

/// The laboratory's, for tests: what does not come within [`LIMIT`] fails them.
pub async fn eventually<T>(what: &str, ask: impl AsyncFnMut() -> Option<T>) -> T {
    cascade::lab::eventually(what, LIMIT, ask).await.unwrap_or_else(|trouble| panic!("{trouble}"))
}

/// The binary under test, without settings of the shell that runs the tests.
pub fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cascade"));
    std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("CASCADE_")).for_each(|(name, _)| {
        command.env_remove(name);
    });
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Changes settle quickly, so that tests need not wait for seconds; tests about settling say their own times.
const QUICK: [(&str, &str); 2] = [("CASCADE_CATALOG__SETTLE", "30ms"), ("CASCADE_CATALOG__SETTLE_LOOSENING", "60ms")];

/// A running `cascade serve`.
pub struct Cascade {
    child: Child,
    output: Arc<Mutex<String>>,
    readers: Vec<JoinHandle<()>>,
}

impl Cascade {
    /// `cascade serve` on free ports with these further arguments. Settings are environment variables: `("CATALOG__REFRESH", "1s")`.
    pub fn start(arguments: &[&str], settings: &[(&str, &str)]) -> Self {
        let mut all = vec!["serve"];
        for (flag, value) in [("--listen", "127.0.0.1:0"), ("--admin", "127.0.0.1:0")] {
            if !arguments.contains(&flag) {
                all.extend([flag, value]);
            }
        }
        all.extend(arguments);
        let mut command = command(&all);
        command.envs(QUICK);
        command.envs(settings.iter().map(|(name, value)| (format!("CASCADE_{name}"), value)));
        Self::spawn(command)
    }

    /// Starts it and waits until it is ready.
    pub async fn ready(arguments: &[&str], settings: &[(&str, &str)]) -> Self {
        let cascade = Self::start(arguments, settings);
        eventually("readiness", async || (cascade.get("/readyz").await.status == 200).then_some(())).await;
        cascade
    }

    fn spawn(mut command: Command) -> Self {
        let mut child = command.spawn().unwrap();
        let output = Arc::new(Mutex::new(String::new()));
        let readers =
            vec![capture(child.stdout.take().unwrap(), output.clone()), capture(child.stderr.take().unwrap(), output.clone())];
        Self { child, output, readers }
    }

    pub fn output(&self) -> String {
        self.output.lock().unwrap().clone()
    }

    /// What the log says after `before`, up to the next space.
    pub async fn logged(&self, before: &str) -> String {
        let find =
            || self.output().split_once(before).and_then(|(_, rest)| Some(rest.split_once([' ', '\n', '"'])?.0.to_owned()));
        eventually(&format!("`{before}` in the log"), async || find()).await
    }

    /// Where Envoy asks.
    pub async fn listen(&self) -> String {
        self.logged("listening for ext_proc on ").await
    }

    pub async fn admin(&self) -> String {
        self.logged("listening for admin on ").await
    }

    pub async fn get(&self, path: &str) -> Response {
        http::get(&self.admin().await, path).await
    }

    /// `/catalog/status`.
    pub async fn status(&self) -> serde_json::Value {
        self.get("/catalog/status").await.json()
    }

    /// Waits until `/catalog/status` says so.
    pub async fn status_where(&self, what: &str, holds: impl Fn(&serde_json::Value) -> bool) -> serde_json::Value {
        eventually(what, async || Some(self.status().await).filter(|status| holds(status))).await
    }

    /// The value of a series of `/metrics`, labels included.
    pub async fn metric(&self, series: &str) -> Option<f64> {
        let text = self.get("/metrics").await.text();
        text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' ')?.parse().ok())
    }

    pub fn terminate(&self) {
        signal(&self.child, "-TERM");
    }

    /// SIGHUP: read again.
    pub fn hang_up(&self) {
        signal(&self.child, "-HUP");
    }

    /// Waits for the end and gives the exit code and the whole output.
    pub async fn ended(&mut self) -> (Option<i32>, String) {
        let child = &mut self.child;
        let status = eventually("the end of cascade", async || child.try_wait().unwrap()).await;
        self.readers.drain(..).for_each(|reader| reader.join().unwrap());
        (status.code(), self.output())
    }

    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }
}

impl Drop for Cascade {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("--- cascade said\n{}---", self.output());
        }
    }
}

/// `kill` is a program on every system these tests run on; the call itself would need unsafe code.
pub fn signal(child: &Child, signal: &str) {
    assert!(Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap().success());
}

fn capture(stream: impl Read + Send + 'static, output: Arc<Mutex<String>>) -> JoinHandle<()> {
    std::thread::spawn(move || {
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
            let mut output = output.lock().unwrap();
            output.push_str(&line);
            output.push('\n');
        }
    })
}

/// Runs a command that ends by itself: exit code, standard output, standard error.
pub fn run(arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = command(arguments).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

/// For assertions on JSON.
pub fn field<'a, T>(value: &'a serde_json::Value, name: &str, read: impl Fn(&'a serde_json::Value) -> Option<T>) -> T
where
    T: Debug,
{
    read(&value[name]).unwrap_or_else(|| panic!("no usable `{name}` in {value}"))
}
