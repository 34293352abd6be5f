//! Secrets in files: read within a time, whatever the file system does, and read again when they change. What is in them, and what it
//! means that they cannot be read, is the secret's own business.

use std::fs::File;
use std::io::Read;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

use super::BadSecret;

/// How often a file is looked at, and how often one that cannot be used.
const REFRESH: Duration = Duration::from_secs(5);
const SOON: Duration = Duration::from_secs(1);
/// Two readings this far apart must agree: a file that is being written is not taken half-way, nor is one that is swapped missed.
const SETTLE: Duration = Duration::from_millis(100);
/// One that never comes to rest is taken as it is after so many readings.
const MAX_READINGS: u32 = 20;
/// How long a file system may take to answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// How often it is said that a file cannot be used.
const PAUSE: Duration = Duration::from_secs(60);
/// More than any list of keys has, in bytes.
const MAX_SIZE: u64 = 1024 * 1024;

/// Something that a file holds.
pub(super) trait Secret: Send + Sync {
    /// The setting that names the file.
    const SETTING: &'static str;
    /// What is so while the file cannot be used.
    const MEANWHILE: &'static str;

    /// Takes over what the file says.
    ///
    /// # Errors
    /// It says nothing that can be used; nothing is changed.
    fn take(&self, text: &str) -> Result<(), BadSecret>;

    /// The file says nothing that can be used, or is gone.
    fn lose(&self);
}

/// Reads a file once.
///
/// # Errors
/// It cannot be read, in words that hold nothing of it.
pub(super) fn read(path: &str) -> Result<String, String> {
    let (sender, receiver) = mpsc::channel();
    let owned = path.to_owned();
    let reader = thread::Builder::new().name("secret".to_owned()).spawn(move || _ = sender.send(read_now(&owned)));
    reader.map_err(|error| error.to_string())?;
    receiver.recv_timeout(PATIENCE).unwrap_or_else(|_| Err(silence()))
}

fn silence() -> String {
    format!("the file system has not answered for {PATIENCE:?}")
}

/// What is not a file may never end, or never begin.
fn read_now(path: &str) -> Result<String, String> {
    let usable = |metadata: std::io::Result<std::fs::Metadata>| match metadata {
        Ok(metadata) if metadata.is_file() => Ok(()),
        Ok(_) => Err("it is not a regular file".to_owned()),
        Err(error) => Err(error.to_string()),
    };
    usable(std::fs::metadata(path))?;
    let file = File::open(path).map_err(|error| error.to_string())?;
    usable(file.metadata())?;
    let mut text = String::new();
    file.take(MAX_SIZE + 1).read_to_string(&mut text).map_err(|error| error.to_string())?;
    if text.len() as u64 > MAX_SIZE {
        return Err("it is longer than 1 MiB".to_owned());
    }
    Ok(text)
}

/// A file that is read on a thread which may block, one at a time.
struct Reader {
    path: String,
    under_way: Option<JoinHandle<Result<String, String>>>,
}

impl Reader {
    /// What the file says; that it does not answer in time is said as an error, and the same reading is awaited the next time.
    async fn read(&mut self) -> Result<String, String> {
        let path = self.path.clone();
        let reading = self.under_way.get_or_insert_with(|| tokio::task::spawn_blocking(move || read_now(&path)));
        match timeout(PATIENCE, reading).await {
            Ok(read) => {
                self.under_way = None;
                read.unwrap_or_else(|error| Err(error.to_string()))
            }
            Err(_) => Err(silence()),
        }
    }

    /// The same for a file that has changed, once two readings agree.
    async fn at_rest(&mut self, first: Result<String, String>) -> Result<String, String> {
        let mut read = first;
        for _ in 0..MAX_READINGS {
            sleep(SETTLE).await;
            let again = self.read().await;
            if again == read {
                break;
            }
            read = again;
        }
        read
    }
}

/// Takes over what a file says whenever it changes, for as long as it is polled. `again` has it looked at at once.
pub(super) async fn follow<S: Secret>(secret: S, path: String, mut again: watch::Receiver<u64>) {
    let mut reader = Reader { path, under_way: None };
    // What was read last, why it cannot be used, and when that was last said.
    let (mut known, mut trouble, mut said) = (None, None, None);
    loop {
        let mut read = reader.read().await;
        if known.as_ref() != Some(&read) {
            read = reader.at_rest(read).await;
        }
        if known.as_ref() != Some(&read) {
            let taken = read.clone().and_then(|text| secret.take(&text).map_err(|BadSecret(why)| why));
            (trouble, said) = (taken.err(), None);
            match trouble {
                None => tracing::info!(path = reader.path, "what {} says is in use", S::SETTING),
                Some(_) => secret.lose(),
            }
            known = Some(read);
        }
        if let Some(why) = trouble.as_deref().filter(|_| said.is_none_or(|said: Instant| said.elapsed() >= PAUSE)) {
            said = Some(Instant::now());
            tracing::error!(path = reader.path, why, "{} cannot be used: {}", S::SETTING, S::MEANWHILE);
        }
        let is_over = tokio::select! {
            () = sleep(if trouble.is_some() { SOON } else { REFRESH }) => false,
            asked = again.changed() => asked.is_err(),
        };
        if is_over {
            sleep(REFRESH).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_file_is_refused_and_never_waited_for() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name).display().to_string();
        let made = std::process::Command::new("mkfifo").arg(path("fifo")).status().unwrap();
        assert!(made.success());
        std::os::unix::fs::symlink(path("fifo"), path("link")).unwrap();
        for name in ["fifo", "link"] {
            assert_eq!(read(&path(name)), Err("it is not a regular file".to_owned()), "{name}");
        }
        assert!(read(&path("")).is_err() && read("/dev/zero").is_err() && read(&path("missing")).is_err());
        std::fs::write(path("long"), vec![b'x'; 2 << 20]).unwrap();
        assert!(read(&path("long")).unwrap_err().contains("1 MiB"));
        std::fs::write(path("bytes"), [0xff; 20]).unwrap();
        assert!(read(&path("bytes")).is_err());
        std::fs::write(path("good"), "text").unwrap();
        assert_eq!(read(&path("good")), Ok("text".to_owned()));
    }

    #[tokio::test]
    async fn a_reading_that_does_not_come_is_awaited_and_not_begun_again() {
        let (go, stuck) = mpsc::channel::<()>();
        let under_way = tokio::task::spawn_blocking(move || {
            let _ = stuck.recv();
            Ok("late".to_owned())
        });
        let mut reader = Reader { path: "/nowhere".to_owned(), under_way: Some(under_way) };
        assert_eq!(reader.read().await, Err(silence()));
        drop(go);
        assert_eq!(reader.read().await, Ok("late".to_owned()));
        assert!(reader.read().await.is_err(), "and then the file itself");
    }
}
