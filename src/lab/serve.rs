//! `cascade serve` as a process of its own, reachable at sockets in a directory: it can be killed and come back at the same
//! address, and no port is raced for.

use std::ffi::OsString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use super::envoy::tail;
use super::{Endpoint, Request, Response, Result, Trouble, eventually};

/// A catalog of the usual size loads in milliseconds; the machine may be busy.
const START_LIMIT: Duration = Duration::from_secs(30);

/// Whoever writes a catalog here writes it whole, before the start or by rename.
const QUICK: [(&str, &str); 2] = [("CASCADE_CATALOG__SETTLE", "30ms"), ("CASCADE_CATALOG__SETTLE_LOOSENING", "60ms")];

/// A running `cascade serve`, killed on drop.
#[derive(Debug)]
pub struct Serve {
    child: Child,
    grpc: Endpoint,
    admin: Endpoint,
    log: PathBuf,
}

impl Serve {
    /// Starts `program serve` with these further arguments and waits until it is ready. Its sockets and its log are in
    /// `directory`; the log of an earlier one there is kept.
    ///
    /// # Errors
    /// When it cannot be started, ends, or does not become ready; the message holds its log.
    pub async fn start(program: &Path, directory: &Path, arguments: &[&str]) -> Result<Self> {
        let mut serve = Self::spawn(program, directory, arguments)?;
        serve.ready().await?;
        Ok(serve)
    }

    /// Starts it without waiting.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn spawn(program: &Path, directory: &Path, arguments: &[&str]) -> Result<Self> {
        Self::spawn_with(program, directory, arguments, &QUICK)
    }

    /// The same with the variables `settings`, and with its own times for a catalog to settle unless they say otherwise.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn spawn_with(program: &Path, directory: &Path, arguments: &[&str], settings: &[(&str, &str)]) -> Result<Self> {
        let socket = |name: &str| Endpoint::Unix(directory.join(name));
        let (grpc, admin, log) = (socket("grpc.sock"), socket("admin.sock"), directory.join("cascade.log"));
        let output = File::options().create(true).append(true).open(&log);
        let output = output.map_err(|error| Trouble::new(format!("opening {}", log.display()), error))?;
        let errors = output.try_clone().map_err(|error| Trouble::new("opening the log twice", error))?;
        let mut command = Command::new(program);
        command.arg("serve").args(["--listen", &grpc.to_string(), "--admin", &admin.to_string()]).args(arguments);
        without_settings(&mut command);
        command.envs(settings.iter().copied());
        let child = command
            .stdin(Stdio::null())
            .stdout(output)
            .stderr(errors)
            .spawn()
            .map_err(|error| Trouble::new(format!("starting {}", program.display()), error))?;
        Ok(Self { child, grpc, admin, log })
    }

    /// Waits until `/readyz` says yes.
    ///
    /// # Errors
    /// When it ends before, or the time is over.
    pub async fn ready(&mut self) -> Result<()> {
        let admin = self.admin.clone();
        let child = &mut self.child;
        let ready = eventually("cascade's readiness", START_LIMIT, async || {
            if let Ok(Some(status)) = child.try_wait() {
                return Some(Err(Trouble(format!("cascade ended at its start: {status}"))));
            }
            let state = Request::get("/readyz").send(&admin).await.ok()?;
            (state.status == 200).then_some(Ok(()))
        });
        let ready = ready.await.and_then(|state| state);
        ready.map_err(|trouble| Trouble(format!("{trouble}\n{}", tail(&self.log))))
    }

    /// Waits until it answers on its admin address, ready or not.
    ///
    /// # Errors
    /// When it does not.
    pub async fn bound(&self) -> Result<()> {
        let alive = async || Request::get("/livez").send(&self.admin).await.ok().filter(|state| state.status == 200);
        eventually("cascade's start", START_LIMIT, alive).await.map(|_| ())
    }

    /// Where Envoy asks.
    #[must_use]
    pub fn grpc(&self) -> &Endpoint {
        &self.grpc
    }

    /// Asks the admin port.
    ///
    /// # Errors
    /// When there is no answer.
    pub async fn admin(&self, request: Request) -> Result<Response> {
        request.send(&self.admin).await
    }

    /// Its process id.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// What it has logged so far.
    #[must_use]
    pub fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Ends it at once, as a crash does.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Asks it to end, as an orchestrator does.
    ///
    /// # Errors
    /// When the signal cannot be sent.
    pub fn terminate(&self) -> Result<()> {
        self.signal("TERM")
    }

    /// Stops it where it is, as a machine that hangs does: its sockets stay open and nobody answers.
    ///
    /// # Errors
    /// When the signal cannot be sent.
    pub fn freeze(&self) -> Result<()> {
        self.signal("STOP")
    }

    /// Lets it go on.
    ///
    /// # Errors
    /// When the signal cannot be sent.
    pub fn thaw(&self) -> Result<()> {
        self.signal("CONT")
    }

    fn signal(&self, name: &str) -> Result<()> {
        signal(self.child.id(), name)
    }

    /// Waits for its end.
    ///
    /// # Errors
    /// When it is still there after `limit`.
    pub async fn ended(&mut self, limit: Duration) -> Result<ExitStatus> {
        let child = &mut self.child;
        eventually("cascade's end", limit, async || child.try_wait().ok().flatten()).await
    }
}

impl Drop for Serve {
    fn drop(&mut self) {
        self.kill();
        if std::thread::panicking() {
            eprintln!("--- cascade.log\n{}", tail(&self.log));
        }
    }
}

/// Sends a signal to a process by its id.
///
/// # Errors
/// When it cannot be sent.
pub fn signal(id: u32, name: &str) -> Result<()> {
    // `kill` is a program on every system that Envoy runs on; the call itself would need unsafe code.
    let sent = Command::new("kill").args([&format!("-{name}"), &id.to_string()]).status();
    sent.map(|_| ()).map_err(|error| Trouble::new(format!("sending SIG{name}"), error))
}

/// Settings of the shell it was started from would change what is shown.
fn without_settings(command: &mut Command) {
    let ours = |name: &OsString| name.to_string_lossy().starts_with("CASCADE_");
    for name in std::env::vars_os().map(|(name, _)| name).filter(ours) {
        command.env_remove(name);
    }
}
