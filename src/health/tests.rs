use super::cluster::MAX_MODELS;
use super::*;

const POLICY: Policy =
    Policy { consecutive_failures: 3, cooldown: Duration::from_secs(10), max_cooldown: Duration::from_secs(60) };

const FAILED: Event = Event::Failed(Failure::Status(503));

fn health() -> Health {
    Health::new(POLICY)
}

fn at(seconds: u64) -> Moment {
    Moment(seconds * 1000)
}

fn limited(seconds: u64) -> Event {
    Event::RateLimited { retry_after: Some(Duration::from_secs(seconds)) }
}

fn is_cooling(health: &Health, cluster: &str, model: Option<&str>, now: Moment) -> bool {
    let view = health.view(now);
    Seen::new(&view, now).is_cooling(cluster, model)
}

#[test]
fn a_429_cools_this_model_on_this_cluster_for_as_long_as_it_says() {
    let mut health = health();
    let change = health.note("c", Some("m"), limited(7), at(100), 0).unwrap();
    assert_eq!((change.model.as_deref(), change.cooldown.until), (Some("m"), at(107)));
    assert!(is_cooling(&health, "c", Some("m"), Moment(106_999)));
    assert!(!is_cooling(&health, "c", Some("m"), at(107)));
    assert!(!is_cooling(&health, "c", Some("other"), at(101)) && !is_cooling(&health, "c", None, at(101)));
    assert!(!is_cooling(&health, "d", Some("m"), at(101)));
}

#[test]
fn a_429_without_a_word_cools_for_the_settings_time_and_one_without_a_model_the_whole_cluster() {
    let mut health = health();
    let change = health.note("c", None, Event::RateLimited { retry_after: None }, at(0), 0).unwrap();
    assert_eq!((change.model, change.cooldown.until), (None, at(10)));
    assert!(is_cooling(&health, "c", Some("any"), at(9)));
}

#[test]
fn what_a_provider_asks_for_has_a_limit_at_both_ends() {
    let mut health = health();
    assert_eq!(health.note("c", None, limited(86_400), at(0), u64::MAX).unwrap().cooldown.until, at(60));
    assert_eq!(health.note("d", None, limited(0), at(0), 0).unwrap().cooldown.until, at(1));
}

#[test]
fn failures_in_a_row_cool_the_whole_cluster_and_an_answer_breaks_the_row() {
    let mut health = health();
    for event in [FAILED, FAILED, Event::Answered, FAILED, FAILED] {
        assert_eq!(health.note("c", Some("m"), event, at(0), 0), None);
    }
    let change = health.note("c", Some("m"), FAILED, at(5), 0).unwrap();
    assert_eq!((change.model, change.cooldown.cause, change.cooldown.until), (None, Cause::Failures, at(15)));
}

#[test]
fn a_cluster_without_a_host_cools_at_once() {
    let mut health = health();
    assert_eq!(health.note("c", Some("m"), Event::NoHost, at(0), 0).unwrap().cooldown.cause, Cause::NoHost);
}

#[test]
fn jitter_lengthens_by_a_fifth_at_most() {
    let length = |jitter| health().note("c", None, limited(10), at(0), jitter).unwrap().cooldown.until;
    assert_eq!((length(0), length(u64::MAX)), (at(10), at(12)));
    assert_eq!(length(u64::MAX / 2), length(u64::MAX / 2), "the same input, the same answer");
}

#[test]
fn the_success_of_a_request_under_way_ends_no_cooldown() {
    let mut health = health();
    health.note("c", Some("m"), limited(10), at(0), 0);
    health.note("c", Some("m"), Event::Answered, at(1), 0);
    assert!(is_cooling(&health, "c", Some("m"), at(2)));
}

#[test]
fn failures_while_it_cools_change_nothing_but_a_longer_wish_is_heard() {
    let mut health = health();
    health.note("c", None, Event::NoHost, at(0), 0);
    for second in 1..9 {
        assert_eq!(health.note("c", None, FAILED, at(second), 0), None);
    }
    assert_eq!(health.cluster("c").unwrap().whole.unwrap().until, at(10));
    assert_eq!(health.note("c", None, limited(3), at(5), 0), None);
    assert_eq!(health.cluster("c").unwrap().whole.unwrap().until, at(10), "never shorter");
    let longer = health.note("c", None, limited(30), at(5), 0).unwrap();
    assert_eq!((longer.what, longer.cooldown.since), (What::Moves, at(0)), "it is no new cooldown");
    assert_eq!(health.cluster("c").unwrap().whole.unwrap().until, at(35));
}

#[test]
fn after_the_end_one_failure_cools_again_and_longer_up_to_the_limit() {
    let mut health = health();
    let mut now = at(0);
    health.note("c", None, Event::NoHost, now, 0);
    for expected in [20, 40, 60, 60] {
        now = health.cluster("c").unwrap().whole.unwrap().until;
        assert!(!is_cooling(&health, "c", None, now), "the next request tries it");
        health.ended(now);
        let change = health.note("c", None, FAILED, now, 0).unwrap();
        assert_eq!(change.cooldown.until, now.after(Duration::from_secs(expected)));
    }
    now = health.cluster("c").unwrap().whole.unwrap().until;
    health.ended(now);
    health.note("c", None, Event::Answered, now, 0);
    assert_eq!(health.note("c", None, FAILED, now, 0), None, "an answer after the end forgets it all");
}

#[test]
fn the_end_of_a_cooldown_is_told_once() {
    let mut health = health();
    health.note("c", Some("m"), limited(10), at(0), 0);
    assert_eq!(health.next_end(), Some(at(10)));
    assert!(health.ended(at(9)).is_empty());
    let ended = health.ended(at(10));
    assert_eq!(ended[0].model.as_deref(), Some("m"));
    assert!(health.ended(at(11)).is_empty() && health.next_end().is_none());
}

#[test]
fn a_person_cools_and_clears() {
    let mut health = health();
    health.cool("c", Duration::from_secs(3600), at(0));
    assert!(is_cooling(&health, "c", Some("m"), at(3599)), "no limit but the person's own");
    health.note("c", Some("m"), limited(10), at(0), 0);
    assert_eq!(health.clear("c", at(1)).len(), 2, "the cluster and its model");
    assert!(health.view(at(1)).is_empty());
    assert!(health.clear("c", at(1)).is_empty());
}

#[test]
fn models_without_end_take_no_memory_without_end() {
    let mut health = health();
    for index in 0..MAX_MODELS + 50 {
        health.note("c", Some(&format!("m{index}")), limited(10), at(index as u64), 0);
    }
    assert_eq!(health.cluster("c").unwrap().models.len(), MAX_MODELS);
}

fn told(cause: Cause, since: u64, until: u64, length: u64) -> Cooldown {
    Cooldown::told(cause, at(since), at(until), Duration::from_secs(length))
}

#[test]
fn what_another_replica_tells_keeps_its_end_and_doubles_once() {
    let (mut here, mut there) = (health(), health());
    let change = here.note("c", None, Event::NoHost, at(0), u64::MAX).unwrap();
    assert_eq!(there.learn("c", None, change.cooldown, at(1)).unwrap().what, What::Begins);
    assert_eq!(there.cluster("c").unwrap().whole.unwrap().until, at(12), "with the jitter that was given it");
    assert_eq!(there.learn("c", None, change.cooldown, at(2)), None, "told twice");
    assert_eq!(here.learn("c", None, change.cooldown, at(2)), None, "and to the one who said it");
    // Both see the failure after the end, and both hear of the other's.
    let (end, again) = (at(12), Duration::from_secs(20));
    let first = here.note("c", None, FAILED, end, 0).unwrap();
    let second = there.note("c", None, FAILED, end, 0).unwrap();
    assert_eq!((first.cooldown.length(), second.cooldown.length()), (again, again), "one failure is enough there as well");
    here.learn("c", None, second.cooldown, end);
    there.learn("c", None, first.cooldown, end);
    let next = here.note("c", None, FAILED, end.after(again), 0).unwrap();
    assert_eq!(next.cooldown.length(), again * 2);
}

#[test]
fn what_another_replica_tells_ends_nothing_and_has_limits() {
    let mut health = health();
    health.note("c", Some("m"), limited(30), at(0), 0);
    assert_eq!(health.learn("c", Some("m"), told(Cause::RateLimited, 0, 10, 10), at(1)), None, "sooner");
    assert!(is_cooling(&health, "c", Some("m"), at(29)));
    assert_eq!(health.learn("c", Some("m"), told(Cause::RateLimited, 0, 40, 10), at(1)).unwrap().what, What::Moves);
    assert!(is_cooling(&health, "c", Some("m"), at(39)));
    let far = health.learn("d", None, told(Cause::Failures, 999_999, 999_999_999, 999_999), at(1)).unwrap();
    assert_eq!((far.cooldown.since, far.cooldown.until), (at(1), at(61)), "another clock, or another limit");
    assert_eq!(health.note("d", None, FAILED, at(61), 0).unwrap().cooldown.until, at(121));
    assert_eq!(health.learn("e", None, told(Cause::NoHost, 0, 5, 10), at(5)), None, "over");
    assert!(health.cluster("e").is_none());
}

#[test]
fn a_persons_word_holds_on_every_replica_as_it_was_said() {
    let mut health = health();
    health.note("c", None, Event::NoHost, at(0), 0);
    let change = health.learn("c", None, told(Cause::Operator, 0, 3_600, 0), at(1)).unwrap();
    assert_eq!(change.cooldown.until, at(3_600), "beyond max_cooldown");
    health.learn("c", None, told(Cause::Operator, 2, 4, 0), at(2));
    assert!(is_cooling(&health, "c", None, at(3)) && !is_cooling(&health, "c", None, at(4)), "also a shorter one");
}
