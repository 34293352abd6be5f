//! One running Envoy: started from a configuration, watched until it is ready, asked for its statistics, killed when dropped. What
//! it wrote is shown when something goes wrong. It does not know why it is run.

use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::client::Sending;
use super::trail::{self, ID_HEADER, Trail};
use super::{EnvoySetup, Request, Response, Result, Scratch, Trouble, binary, eventually};

/// A cold start takes half a second; a machine that compiles at the same time needs more.
const START_LIMIT: Duration = Duration::from_secs(30);
/// How long Envoy keeps log lines back, in milliseconds; its own default is ten seconds.
const LOG_FLUSH: &str = "20";
const LOG_LIMIT: Duration = Duration::from_secs(20);
/// The status of a stopwatch that has run down, which nothing else here answers with.
const STOPPED: &str = "418";

/// A running Envoy.
#[derive(Debug)]
pub struct Envoy {
    child: Child,
    scratch: Scratch,
    admin: SocketAddr,
    listener: SocketAddr,
    next_id: AtomicU64,
}

impl Envoy {
    /// Starts one by this description and waits until it is ready.
    ///
    /// # Errors
    /// When there is no Envoy, or it does not accept the configuration; the message holds what it wrote.
    pub async fn start(setup: &EnvoySetup) -> Result<Self> {
        Self::start_with(&setup.to_yaml()).await
    }

    /// Starts one with this configuration. Its admin port must be 0 and its first listener is the one that requests go to.
    ///
    /// # Errors
    /// As [`Envoy::start`].
    pub async fn start_with(yaml: &str) -> Result<Self> {
        let binary = binary::find()?;
        let scratch = Scratch::new()?;
        let config = scratch.write("envoy.yaml", yaml)?;
        let mut child = spawn(&binary, &config, &scratch)?;
        match ready(&mut child, &scratch).await {
            Ok((admin, listener)) => Ok(Self { child, scratch, admin, listener, next_id: AtomicU64::new(1) }),
            Err(trouble) => {
                stop(&mut child);
                Err(Trouble(format!("{trouble}\n{}", tail(&scratch.path().join("envoy.log")))))
            }
        }
    }

    /// Where clients send their requests.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.listener
    }

    #[must_use]
    pub fn admin(&self) -> SocketAddr {
        self.admin
    }

    /// The directory that holds its configuration and logs.
    #[must_use]
    pub fn directory(&self) -> &Path {
        self.scratch.path()
    }

    /// An id for the next request.
    pub fn next_id(&self) -> String {
        self.next_id.fetch_add(1, Ordering::Relaxed).to_string()
    }

    /// Sends a request and tells its way.
    ///
    /// # Errors
    /// When there is no answer or no trail.
    pub async fn send(&self, request: Request) -> Result<(Response, Trail)> {
        let id = self.next_id();
        let response = request.header(ID_HEADER, &id).send(self.listener).await?;
        Ok((response, self.trail(&id).await?))
    }

    /// Begins a request as [`Request::begin`] does: its id, and what is still to be sent.
    ///
    /// # Errors
    /// When the connection cannot be made.
    pub async fn begin(&self, request: Request, length: Option<usize>) -> Result<(String, Sending)> {
        let id = self.next_id();
        let sending = request.header(ID_HEADER, &id).begin(self.listener, length).await?;
        Ok((id, sending))
    }

    /// Lets time pass on Envoy's own clock: a request that its [`EnvoySetup::stopwatch`] holds back by a timer and then answers
    /// itself. All timers run in one thread, in order: one that was set before, and not for longer, has gone off by then.
    ///
    /// # Errors
    /// When Envoy answers otherwise.
    pub async fn let_pass(&self, time: Duration) -> Result<()> {
        let delay = time.as_millis().to_string();
        let request = Request::get("/").header("x-envoy-fault-delay-request", &delay);
        let answer = request.header("x-envoy-fault-abort-request", STOPPED).send(self.listener).await?;
        if answer.status.to_string() == STOPPED {
            return Ok(());
        }
        Err(Trouble::new("letting time pass", format!("Envoy answers {} instead of {STOPPED}", answer.status)))
    }

    /// The way of the request with this id, once it is over.
    ///
    /// # Errors
    /// When Envoy has not logged it within 20 seconds.
    pub async fn trail(&self, id: &str) -> Result<Trail> {
        let path = self.scratch.path().join("access.log");
        let what = format!("the access log of request {id}");
        eventually(&what, LOG_LIMIT, || async { trail::find(&fs::read_to_string(&path).ok()?, id) }).await
    }

    /// A counter or gauge by its full name; 0 if Envoy does not have it.
    ///
    /// # Errors
    /// When the admin port does not answer.
    pub async fn stat(&self, name: &str) -> Result<u64> {
        let page = Request::get(&format!("/stats?filter=^{name}$")).send(self.admin).await?.text();
        Ok(page.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix(": ")?.parse().ok()).next().unwrap_or(0))
    }

    /// Waits until a counter or gauge has at least this value.
    ///
    /// # Errors
    /// When it does not get there.
    pub async fn stat_reaches(&self, name: &str, value: u64) -> Result<()> {
        let what = format!("{name} >= {value}");
        eventually(&what, LOG_LIMIT, || async { self.stat(name).await.ok().filter(|now| *now >= value) }).await.map(|_| ())
    }
}

impl Drop for Envoy {
    fn drop(&mut self) {
        stop(&mut self.child);
        if std::thread::panicking() {
            for name in ["envoy.log", "access.log"] {
                eprintln!("--- {name}\n{}", tail(&self.scratch.path().join(name)));
            }
        }
    }
}

/// Lets Envoy itself judge a configuration (`--mode validate`).
///
/// # Errors
/// When Envoy is missing or refuses; the message holds its words.
pub fn validate(yaml: &str) -> Result<()> {
    let scratch = Scratch::new()?;
    let config = scratch.write("envoy.yaml", yaml)?;
    let output = Command::new(binary::find()?)
        .args(["--mode", "validate", "--disable-hot-restart", "-l", "warning", "-c"])
        .arg(&config)
        .output()
        .map_err(|error| Trouble::new("running Envoy", error))?;
    if output.status.success() {
        return Ok(());
    }
    Err(Trouble::new("Envoy refuses the configuration", String::from_utf8_lossy(&output.stderr)))
}

fn spawn(binary: &Path, config: &Path, scratch: &Scratch) -> Result<Child> {
    let file = |name: &str| {
        File::create(scratch.path().join(name)).map_err(|error| Trouble::new(format!("making Envoy's {name}"), error))
    };
    Command::new(binary)
        .arg("-c")
        .arg(config)
        // Without hot restart there is no shared memory that two laboratories could quarrel about.
        .args(["--disable-hot-restart", "--concurrency", "1", "-l", "warning", "--file-flush-interval-msec", LOG_FLUSH])
        .arg("--admin-address-path")
        .arg(scratch.path().join("admin"))
        .stdin(Stdio::null())
        .stdout(file("access.log")?)
        .stderr(file("envoy.log")?)
        .spawn()
        .map_err(|error| Trouble::new(format!("starting {}", binary.display()), error))
}

/// The addresses of admin and listener, once Envoy takes requests.
async fn ready(child: &mut Child, scratch: &Scratch) -> Result<(SocketAddr, SocketAddr)> {
    let admin_file = scratch.path().join("admin");
    let found = eventually("Envoy's start", START_LIMIT, async || {
        if let Ok(Some(status)) = child.try_wait() {
            return Some(Err(Trouble(format!("Envoy ended at its start: {status}"))));
        }
        let admin: SocketAddr = fs::read_to_string(&admin_file).ok()?.trim().parse().ok()?;
        let state = Request::get("/ready").send(admin).await.ok()?;
        if state.status != 200 {
            return None;
        }
        Some(listener(admin).await.map(|listener| (admin, listener)))
    });
    found.await?
}

async fn listener(admin: SocketAddr) -> Result<SocketAddr> {
    let page = Request::get("/listeners?format=json").send(admin).await?.text();
    let read = || {
        let page: serde_json::Value = serde_json::from_str(&page).ok()?;
        let address = page.pointer("/listener_statuses/0/local_address/socket_address")?;
        let port = u16::try_from(address.get("port_value")?.as_u64()?).ok()?;
        Some(SocketAddr::new(address.get("address")?.as_str()?.parse().ok()?, port))
    };
    read().ok_or_else(|| Trouble::new("reading Envoy's listeners", &page))
}

fn stop(child: &mut Child) {
    let _ = child.kill();
    let _ = child.wait();
}

/// The end of a log, for a message.
pub(super) fn tail(path: &Path) -> String {
    const SHOWN: usize = 6000;
    let text = fs::read_to_string(path).unwrap_or_default();
    let start = text.char_indices().rev().nth(SHOWN).map_or(0, |(index, _)| index);
    text[start..].to_owned()
}
