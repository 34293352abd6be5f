//! Sessions: which directory the settings make, what is learned and shared, and what that needs.

use std::time::Duration;

use super::{codes, from};
use crate::session::template::Template;
use crate::settings::{Directory, OnTrouble};

#[test]
fn session_settings_make_a_directory() {
    let (settings, warnings) =
        from("session: {directory: http, url: \"http://d:1/s/{session}\", on_unavailable: reject}\n").unwrap();
    assert!(warnings.is_empty() && settings.rules().session, "{warnings:?}");
    assert_eq!(settings.session.directory, Directory::Http(Template::parse("http://d:1/s/{session}").unwrap()));
    assert_eq!(settings.rules().policy.on_session_unavailable, OnTrouble::Reject);
    let (settings, _) = from("session: {directory: redis, url: \"redis://d\", timeout: 10ms, ttl: 1m, capacity: 5}\n").unwrap();
    let key = Template::parse("cascade:session:{tenant}/{model}/{session}").unwrap();
    assert_eq!(settings.session.directory, Directory::Redis { url: "redis://d".to_owned(), key });
    assert_eq!((settings.session.timeout, settings.session.capacity), (Duration::from_millis(10), 5));
    let (settings, _) = from("publish: {sticky_header: x-pick}\n").unwrap();
    assert!(settings.rules().session && !settings.rules().policy.sticky);
}

#[test]
fn learning_makes_a_directory_in_memory_where_there_is_none() {
    let key = || Template::parse("cascade:session:{tenant}/{model}/{session}").unwrap();
    for (session, expected) in [
        ("learn: true", Directory::Memory(key())),
        ("learn: true, directory: memory", Directory::Memory(key())),
        (
            "learn: true, directory: memory, key: \"{tenant}/{session}\"",
            Directory::Memory(Template::parse("{tenant}/{session}").unwrap()),
        ),
        ("learn: true, directory: redis, url: \"redis://d\"", Directory::Redis { url: "redis://d".to_owned(), key: key() }),
    ] {
        let text = format!("session: {{{session}}}\nfeedback: {{enabled: true}}\nsecret_file: /s\n");
        let (settings, warnings) = from(&text).unwrap();
        assert!(warnings.is_empty(), "{warnings:?}");
        assert_eq!((settings.session.directory.clone(), settings.session.learn), (expected, true));
        assert!(settings.rules().session);
    }
}

#[test]
fn sessions_that_would_move_or_meet_are_a_warning() {
    for (text, expected) in [
        ("session: {sticky: true}\n", "random-secret 1:19"),
        ("publish: {sticky_header: x-pick}\n", "random-secret 1:26"),
        ("session: {directory: memory}\n", "empty-directory 1:22"),
        ("session: {learn: true, directory: redis, url: \"redis://d\"}\nfeedback: {enabled: true}\n", "random-secret 1:18"),
        ("extract: {tenant: [{value: t}]}\nsession: {directory: http, url: \"http://d/{session}\"}\n", "shared-sessions 2:33"),
    ] {
        let (settings, warnings) = from(text).unwrap();
        assert_eq!(codes(&warnings), [expected]);
        assert!(settings.rules().session);
    }
    assert!(from("session: {sticky: true}\npublish: {sticky_header: x-pick}\nsecret_file: /s\n").unwrap().1.is_empty());
}

#[test]
fn to_reject_needs_a_directory_that_can_be_away() {
    for (directory, expected) in [
        ("", vec!["rejects-nothing 1:27"]),
        (", directory: none", vec!["rejects-nothing 1:27"]),
        (", directory: memory, learn: true", vec!["rejects-nothing 1:27"]),
        (", directory: redis, url: \"redis://d\"", vec![]),
    ] {
        let (_, warnings) =
            from(&format!("session: {{on_unavailable: reject{directory}}}\nfeedback: {{enabled: true}}\n")).unwrap();
        assert_eq!(codes(&warnings), expected, "{directory}");
    }
}

#[test]
fn a_url_that_is_none_of_a_redis_is_answered_with_one_that_is() {
    for (url, told) in [
        ("rediss://user:secret@d:6379", "TLS to Redis, which this version of Cascade does not have"),
        ("valkeys://d", "TLS"),
        ("d:6379", "it has no scheme"),
        ("http://d", "no URL of a Redis"),
    ] {
        let found = from(&format!("session:\n  directory: redis\n  url: \"{url}\"\n")).unwrap_err();
        assert_eq!((found.len(), found[0].place.to_string().as_str()), (1, "cascade.yaml:3:8"), "{found:?}");
        assert!(found[0].message.contains(told) && !found[0].message.contains("secret"), "{found:?}");
        let hint = found[0].hint.as_deref().unwrap_or_default();
        assert!(hint.contains("redis://host:6379") && hint.contains("redis+unix:///path"), "{hint}");
    }
    for url in ["redis://d", "redis://:p@d:1/2", "redis+unix:///run/redis.sock", "unix:///run/redis.sock"] {
        assert!(from(&format!("session: {{directory: redis, url: \"{url}\"}}\n")).is_ok(), "{url}");
    }
}

#[test]
fn sharing_uses_the_redis_of_the_sessions() {
    let redis = "secret_file: /s\nsession: {directory: redis, url: \"redis://d\"}\n";
    let (settings, warnings) = from(&format!("{redis}feedback: {{enabled: true, share: redis}}\n")).unwrap();
    assert!(warnings.is_empty(), "{warnings:?}");
    let share = settings.feedback.share.unwrap();
    assert_eq!((share.url.as_str(), share.key.as_str()), ("redis://d", "cascade:cooldowns"));
    let (settings, warnings) = from(&format!("{redis}feedback: {{share: redis, share_key: k}}\n")).unwrap();
    assert_eq!((codes(&warnings), settings.feedback.share.unwrap().key), (vec!["no-feedback 3:19".to_owned()], "k".to_owned()));
    let (_, warnings) = from(&format!("{}feedback: {{enabled: true, share: redis}}\n", &redis[16..])).unwrap();
    assert_eq!(codes(&warnings), ["random-secret 2:34"]);
}
