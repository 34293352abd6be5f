//! What becomes of a connection to Redis whose other end is not what it was: demoted, silent, or behind another password; and of what
//! could not be written meanwhile.

use std::path::PathBuf;

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, UnixStream};

use super::learning::{at, in_redis_at, is_idle};
use super::*;

const TTL: Duration = Duration::from_secs(600);

fn socket(server: &RedisServer) -> PathBuf {
    PathBuf::from(server.url().trim_start_matches("redis+unix://"))
}

/// An address that leads to one server now and to another one later, as a name or a virtual IP does.
struct Name {
    directory: tempfile::TempDir,
}

impl Name {
    fn of(server: &RedisServer) -> Self {
        let name = Self { directory: tempfile::tempdir().unwrap() };
        name.move_to(server);
        name
    }

    fn move_to(&self, server: &RedisServer) {
        let (new, path) = (self.directory.path().join("new"), self.directory.path().join("redis.sock"));
        std::os::unix::fs::symlink(socket(server), &new).unwrap();
        std::fs::rename(new, path).unwrap();
    }

    fn url(&self) -> String {
        format!("redis+unix://{}", self.directory.path().join("redis.sock").display())
    }
}

#[tokio::test]
async fn a_primary_that_was_demoted_is_left_for_the_new_one() {
    let (old, new) = (RedisServer::start().await.unwrap(), RedisServer::start().await.unwrap());
    let name = Name::of(&old);
    let sessions = in_redis_at(&name.url(), TTL);
    sessions.learn("first", at("a"));
    until("it is written", async || old.ask::<bool>(&["EXISTS", "first"]).await.unwrap()).await;
    old.ask::<()>(&["REPLICAOF", "127.0.0.1", "1"]).await.unwrap();
    name.move_to(&new);
    // The same session again and again: what was refused is offered again.
    until("the new primary has it", async || {
        sessions.learn("second", at("a"));
        until("it was tried", async || is_idle(&sessions)).await;
        new.ask::<bool>(&["EXISTS", "second"]).await.unwrap()
    })
    .await;
    assert!(sessions.knows("second", "a", Some("10.0.0.1:80")), "and is not offered any more");
}

#[tokio::test]
async fn a_server_that_refuses_the_password_is_connected_to_anew() {
    let (old, new) = (RedisServer::start().await.unwrap(), RedisServer::start().await.unwrap());
    new.ask::<()>(&["SET", "s", r#"{"selected_backend":"b"}"#]).await.unwrap();
    let name = Name::of(&old);
    let redis = Redis::new(&name.url(), PATIENCE, PATIENCE).unwrap();
    assert_eq!(redis.look_up(None, "s").answer().await, Answer::Unknown);
    // Connections that are open lose what they might.
    old.ask::<()>(&["ACL", "SETUSER", "default", "-@all", "+acl", "+multi", "+exec"]).await.unwrap();
    name.move_to(&new);
    until("the other one is asked", async || matches!(redis.look_up(None, "s").answer().await, Answer::Placed(_))).await;
}

/// Leads to a server; the first connection falls silent when it is told to, and stays open.
async fn that_falls_silent(server: &RedisServer) -> (String, Arc<Notify>) {
    let (silence, path) = (Arc::new(Notify::new()), socket(server));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("redis://{}", listener.local_addr().unwrap());
    let told = Arc::clone(&silence);
    tokio::spawn(async move {
        let mut is_first = true;
        while let Ok((mut ours, _)) = listener.accept().await {
            let (mut theirs, told) = (UnixStream::connect(&path).await.unwrap(), Arc::clone(&told));
            let goes_silent = std::mem::take(&mut is_first);
            tokio::spawn(async move {
                tokio::select! {
                    _ = copy_bidirectional(&mut ours, &mut theirs) => {}
                    () = told.notified(), if goes_silent => std::future::pending::<()>().await,
                }
            });
        }
    });
    (url, silence)
}

#[tokio::test]
async fn a_connection_that_has_fallen_silent_is_replaced_whoever_gave_up_waiting() {
    let server = RedisServer::start().await.unwrap();
    server.ask::<()>(&["SET", "s", r#"{"selected_backend":"b"}"#]).await.unwrap();
    let timeout = Duration::from_millis(100);
    for is_cached in [false, true] {
        let (url, silence) = that_falls_silent(&server).await;
        let redis = Arc::new(Redis::new(&url, timeout, PATIENCE).unwrap());
        let directory: Arc<dyn Directory> = match is_cached {
            // The cache stops waiting at the same time as the connection does.
            true => Arc::new(cached(redis, &Session { timeout, negative_ttl: Duration::ZERO, ..settings() })),
            false => redis,
        };
        until("it answers", async || directory.look_up(None, "unknown").answer().await == Answer::Unknown).await;
        silence.notify_one();
        until("it is silent", async || directory.look_up(None, "unknown").answer().await == Answer::Unavailable(Fault::Timeout))
            .await;
        until("another connection answers", async || matches!(directory.look_up(None, "s").answer().await, Answer::Placed(_)))
            .await;
    }
}

#[tokio::test]
async fn what_could_not_be_written_is_written_at_the_next_answer() {
    let mut server = RedisServer::start().await.unwrap();
    let sessions = in_redis_at(&server.url(), TTL);
    server.stop();
    // More than are written at once: some fail, some are not even tried.
    let keys: Vec<String> = (0..1000).map(|session| format!("s{session}")).collect();
    keys.iter().for_each(|key| sessions.learn(key, at("a")));
    until("they are given up", async || is_idle(&sessions)).await;
    assert!(keys.iter().all(|key| !sessions.knows(key, "a", Some("10.0.0.1:80"))), "each is still owed");
    server.run().await.unwrap();
    until("all are written", async || {
        for key in keys.iter().filter(|key| !sessions.knows(key, "a", Some("10.0.0.1:80"))) {
            sessions.learn(key, at("a"));
        }
        until("they are tried", async || is_idle(&sessions)).await;
        server.ask::<usize>(&["DBSIZE"]).await.unwrap() == keys.len()
    })
    .await;
    assert!(keys.iter().all(|key| sessions.knows(key, "a", Some("10.0.0.1:80"))), "and is owed no more");
}
