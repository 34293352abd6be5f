//! The source, looked at without ever waiting for it longer than a clock allows. Files are read on a thread of their own: a dead mount
//! keeps that thread, and nothing else, and the look that it owes is taken when it comes back. What a look gives is not judged here.

use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::timeout;

use super::events::{Events, Seen};
use super::links;
use crate::catalog::origin::{Origin, Reading, read_path};

/// How long files may take to be read. A URL has a clock of its own.
const LONGEST_LOOK: Duration = Duration::from_secs(10);

pub(super) enum Source {
    Path(Reader),
    Url(Origin),
}

impl Source {
    pub(super) fn new(origin: Origin, seen: &Seen) -> std::io::Result<Self> {
        match origin {
            Origin::Path(path) => Reader::start(path, seen.clone()).map(Self::Path),
            origin @ Origin::Url(_) => Ok(Self::Url(origin)),
        }
    }

    /// True if one look at it is whole: an answer of a server is, a file may be half written.
    pub(super) fn is_whole(&self) -> bool {
        matches!(self, Self::Url(_))
    }

    pub(super) async fn look(&mut self) -> Reading {
        match self {
            Self::Path(reader) => reader.look().await,
            Self::Url(origin) => origin.read().await,
        }
    }

    /// Makes the next look at a URL unconditional.
    pub(super) fn forget(&mut self) {
        if let Self::Url(origin) = self {
            origin.forget();
        }
    }
}

/// The thread that reads files.
pub(super) struct Reader {
    path: PathBuf,
    ask: mpsc::Sender<()>,
    answers: UnboundedReceiver<Reading>,
    /// A look was asked for and has not come.
    is_owed: bool,
    limit: Duration,
}

impl Reader {
    fn start(path: PathBuf, seen: Seen) -> std::io::Result<Self> {
        let (ask, asked) = mpsc::channel();
        let (answer, answers) = unbounded_channel();
        let own = path.clone();
        std::thread::Builder::new().name("catalog-files".to_owned()).spawn(move || run(&own, seen, &asked, &answer))?;
        Ok(Self { path, ask, answers, is_owed: false, limit: LONGEST_LOOK })
    }

    async fn look(&mut self) -> Reading {
        if !self.is_owed {
            self.is_owed = self.ask.send(()).is_ok();
        }
        match timeout(self.limit, self.answers.recv()).await {
            Ok(Some(reading)) => {
                self.is_owed = false;
                reading
            }
            Ok(None) => Reading::Away("the thread that reads the catalog has ended".to_owned()),
            Err(_) => Reading::Away(format!(
                "{}: reading takes longer than {:?}: a mount that does not answer?",
                self.path.display(),
                self.limit
            )),
        }
    }
}

fn run(path: &Path, seen: Seen, asked: &mpsc::Receiver<()>, answer: &UnboundedSender<Reading>) {
    let mut events = Events::new(seen);
    while asked.recv().is_ok() {
        // Watched first: what changes while it is read makes an event.
        events.watch(links::directories(path), path.file_name().unwrap_or_default());
        if answer.send(read_path(path)).is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::load::{Files, SourceFile};

    #[tokio::test]
    async fn a_read_that_hangs_is_given_up_and_taken_when_it_comes_back() {
        let (ask, asked) = mpsc::channel();
        let (answer, answers) = unbounded_channel();
        let limit = Duration::from_millis(1);
        let mut reader = Reader { path: PathBuf::from("/mnt/dead"), ask, answers, is_owed: false, limit };
        for _ in 0..3 {
            let Reading::Away(why) = reader.look().await else { panic!("it hangs") };
            assert!(why.contains("/mnt/dead") && why.contains("longer than"), "{why}");
        }
        assert_eq!(asked.try_iter().count(), 1, "no second reader is sent after the first one");
        let texts = vec![SourceFile::new("a.yaml", "version: 1")];
        answer.send(Reading::from(Ok(Files { texts, ..Files::default() }))).unwrap();
        assert!(matches!(reader.look().await, Reading::Found(Ok(files), _) if files.texts.len() == 1));
        answer.send(Reading::Away("gone".to_owned())).unwrap();
        assert!(matches!(reader.look().await, Reading::Away(why) if why == "gone"));
        assert_eq!(asked.try_iter().count(), 1, "it is asked again");
    }
}
