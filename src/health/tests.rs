use super::*;

const POLICY: Policy =
    Policy { consecutive_failures: 3, cooldown: Duration::from_secs(10), max_cooldown: Duration::from_secs(60) };

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
    for event in [Event::Failed, Event::Failed, Event::Answered, Event::Failed, Event::Failed] {
        assert_eq!(health.note("c", Some("m"), event, at(0), 0), None);
    }
    let change = health.note("c", Some("m"), Event::Failed, at(5), 0).unwrap();
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
        assert_eq!(health.note("c", None, Event::Failed, at(second), 0), None);
    }
    assert_eq!(health.cluster("c").unwrap().whole.unwrap().until, at(10));
    assert_eq!(health.note("c", None, limited(3), at(5), 0), None);
    assert_eq!(health.cluster("c").unwrap().whole.unwrap().until, at(10), "never shorter");
    assert_eq!(health.note("c", None, limited(30), at(5), 0), None, "it is no new cooldown");
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
        let change = health.note("c", None, Event::Failed, now, 0).unwrap();
        assert_eq!(change.cooldown.until, now.after(Duration::from_secs(expected)));
    }
    now = health.cluster("c").unwrap().whole.unwrap().until;
    health.ended(now);
    health.note("c", None, Event::Answered, now, 0);
    assert_eq!(health.note("c", None, Event::Failed, now, 0), None, "an answer after the end forgets it all");
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
