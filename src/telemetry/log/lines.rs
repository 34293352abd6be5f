//! Log lines on their way to a stream that nobody may be reading: whoever logs hands its line over and goes on. What does not fit into
//! the queue is lost and counted. It knows no event, only bytes.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use prometheus_client::metrics::counter::Counter;
use tracing_subscriber::fmt::MakeWriter;

/// Lines that wait, and their bytes: some seconds of a talkative log.
const MAX_LINES: usize = 16 * 1024;
const MAX_BYTES: usize = 4 * 1024 * 1024;
/// How often it is said that lines were lost.
const PAUSE: Duration = Duration::from_secs(10);

/// The queue; clones share it.
#[derive(Debug, Clone)]
pub struct Lines(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    queue: Mutex<Queue>,
    /// Something has come, or has been written.
    changed: Condvar,
    lost: Counter,
}

#[derive(Debug, Default)]
struct Queue {
    lines: VecDeque<Vec<u8>>,
    /// Of all lines, those that are being written included.
    bytes: usize,
    /// Lines lost since that was last said.
    lost: u64,
    said: Option<Instant>,
}

impl Lines {
    /// Starts to write to `stream`, on a thread that may block there for ever.
    ///
    /// # Errors
    /// The system gives no thread.
    pub(super) fn to(stream: impl Write + Send + 'static) -> io::Result<Self> {
        let lines = Self(Arc::new(Shared { queue: Mutex::default(), changed: Condvar::new(), lost: Counter::default() }));
        let writer = lines.clone();
        thread::Builder::new().name("log".to_owned()).spawn(move || writer.run(stream))?;
        Ok(lines)
    }

    /// Counts the lines that were lost.
    #[must_use]
    pub fn lost(&self) -> Counter {
        self.0.lost.clone()
    }

    /// Waits until everything is written, but no longer than this.
    pub fn flush(&self, limit: Duration) {
        let queue = self.lock();
        let _ = self.0.changed.wait_timeout_while(queue, limit, |queue| queue.bytes > 0);
    }

    fn put(&self, line: &[u8]) {
        let mut queue = self.lock();
        if queue.lines.len() >= MAX_LINES || queue.bytes + line.len() > MAX_BYTES {
            queue.lost += 1;
            drop(queue);
            self.0.lost.inc();
        } else {
            queue.bytes += line.len();
            queue.lines.push_back(line.to_vec());
            drop(queue);
            self.0.changed.notify_all();
        }
    }

    fn run(&self, mut stream: impl Write) {
        loop {
            let batch = {
                let queue = self.lock();
                let waited = self.0.changed.wait_while(queue, |queue| queue.lines.is_empty());
                std::mem::take(&mut waited.unwrap_or_else(PoisonError::into_inner).lines)
            };
            // One call for many lines. A reader that has gone away takes none of them.
            let bytes: Vec<u8> = batch.iter().flatten().copied().collect();
            let written = stream.write_all(&bytes).and_then(|()| stream.flush());
            if written.is_err() {
                self.0.lost.inc_by(batch.len() as u64);
            }
            let mut queue = self.lock();
            queue.bytes -= bytes.len();
            let lost = queue.lost_to_say(Instant::now());
            drop(queue);
            self.0.changed.notify_all();
            if let Some(lines) = lost {
                tracing::warn!(lines, "log lines were lost: whoever reads the log is too slow or has stopped");
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.0.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Queue {
    fn lost_to_say(&mut self, now: Instant) -> Option<u64> {
        if self.lost == 0 || self.said.is_some_and(|said| now.duration_since(said) < PAUSE) {
            return None;
        }
        self.said = Some(now);
        Some(std::mem::take(&mut self.lost))
    }
}

/// Takes one line: events are written whole.
#[derive(Debug)]
pub struct Line(Lines);

impl<'a> MakeWriter<'a> for Lines {
    type Writer = Line;

    fn make_writer(&'a self) -> Line {
        Line(self.clone())
    }
}

impl Write for Line {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.0.put(line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    /// A stream that takes nothing before it is told to.
    struct Stuck(mpsc::Receiver<()>, Arc<Mutex<Vec<u8>>>);

    impl Write for Stuck {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let _ = self.0.recv();
            self.1.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_stream_that_takes_nothing_blocks_nobody_and_what_is_lost_is_counted() {
        let (go, stuck) = mpsc::channel();
        let written = Arc::new(Mutex::new(Vec::new()));
        let lines = Lines::to(Stuck(stuck, written.clone())).unwrap();
        let line = [b'x'; 1024];
        (0..10_000).for_each(|_| lines.put(&line));
        lines.flush(Duration::from_millis(1));
        assert_eq!(lines.lost().get(), 10_000 - (MAX_BYTES / 1024) as u64);
        drop(go);
        lines.flush(Duration::from_secs(20));
        assert_eq!(written.lock().unwrap().len(), MAX_BYTES);
        lines.put(b"after\n");
        lines.flush(Duration::from_secs(20));
        assert!(written.lock().unwrap().ends_with(b"after\n"));
    }

    #[test]
    fn a_stream_that_is_gone_takes_nothing_and_ends_nothing() {
        struct Gone;
        impl Write for Gone {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::Error::from(io::ErrorKind::BrokenPipe))
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let lines = Lines::to(Gone).unwrap();
        for expected in 1..4 {
            lines.put(b"x\n");
            lines.flush(Duration::from_secs(20));
            assert_eq!(lines.lost().get(), expected);
        }
    }

    #[test]
    fn that_lines_were_lost_is_said_now_and_then() {
        let (mut queue, start) = (Queue { lost: 5, ..Queue::default() }, Instant::now());
        assert_eq!(queue.lost_to_say(start), Some(5));
        queue.lost = 7;
        assert_eq!(queue.lost_to_say(start + PAUSE / 2), None);
        assert_eq!(queue.lost_to_say(start + PAUSE), Some(7));
        assert_eq!(queue.lost_to_say(start + 3 * PAUSE), None);
    }
}
