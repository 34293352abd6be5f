//! What must hold for every history of attempts: a cooldown ends by time or by hand alone, is never longer than the limit, and
//! the same history gives the same state.

use proptest::prelude::*;

use super::*;

const CLUSTERS: [&str; 2] = ["a", "b"];
const MODELS: [Option<&str>; 3] = [None, Some("m"), Some("n")];

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        Just(Event::Answered),
        Just(Event::Failed(Failure::Timeout)),
        Just(Event::NoHost),
        proptest::option::of(0..900_u64).prop_map(|after| Event::RateLimited { retry_after: after.map(Duration::from_secs) }),
    ]
}

fn history() -> impl Strategy<Value = Vec<(usize, usize, Event, u64, u64)>> {
    proptest::collection::vec((0..2_usize, 0..3_usize, event(), 0..30_000_u64, any::<u64>()), 1..60)
}

/// What happens on one of two replicas that share.
#[derive(Debug, Clone)]
enum Step {
    Note(Event),
    Cool(u64),
    Clear,
    /// What it has said so far reaches the stream.
    Send,
    /// It reads what is in the stream.
    Read,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => event().prop_map(Step::Note),
        1 => (1..120_u64).prop_map(Step::Cool),
        1 => Just(Step::Clear),
        2 => Just(Step::Send),
        2 => Just(Step::Read),
    ]
}

/// A cooldown, or that a cluster was cleared.
type Said = Result<Change, usize>;

struct Replica {
    health: Health,
    outbox: Vec<Said>,
    read: usize,
}

impl Replica {
    fn read(&mut self, stream: &[Said], now: Moment) {
        for said in &stream[self.read..] {
            match said {
                Ok(change) => _ = self.health.learn(&change.cluster, change.model.as_deref(), change.cooldown, now),
                Err(cluster) => _ = self.health.clear(CLUSTERS[*cluster], now),
            }
        }
        self.read = stream.len();
    }
}

proptest! {
    /// Replicas that take everybody's words in one order, their own too, agree: however late each of them sends and reads.
    #[test]
    fn replicas_agree_in_the_end(
        steps in proptest::collection::vec((0..2_usize, 0..2_usize, 0..3_usize, step(), 0..20_000_u64, any::<u64>()), 1..80),
    ) {
        let replica = || Replica { health: Health::new(Policy::default()), outbox: Vec::new(), read: 0 };
        let (mut replicas, mut stream, mut now) = ([replica(), replica()], Vec::new(), Moment(1_000_000));
        for (who, cluster, model, step, pause, jitter) in steps {
            now = Moment(now.0 + pause);
            let Replica { health, outbox, .. } = &mut replicas[who];
            health.ended(now);
            match step {
                Step::Note(event) => outbox.extend(health.note(CLUSTERS[cluster], MODELS[model], event, now, jitter).map(Ok)),
                Step::Cool(seconds) => outbox.push(Ok(health.cool(CLUSTERS[cluster], Duration::from_secs(seconds), now))),
                Step::Clear => {
                    health.clear(CLUSTERS[cluster], now);
                    outbox.push(Err(cluster));
                }
                Step::Send => stream.append(outbox),
                Step::Read => replicas[who].read(&stream, now),
            }
        }
        replicas.iter_mut().for_each(|replica| stream.append(&mut replica.outbox));
        replicas.iter_mut().for_each(|replica| replica.read(&stream, now));
        let [one, two] = replicas.map(|replica| replica.health.view(now));
        prop_assert_eq!(one, two);
    }

    #[test]
    fn cooldowns_keep_their_promises(history in history(), failures in 1..5_u32) {
        let policy = Policy { consecutive_failures: failures, ..Policy::default() };
        let (mut health, mut again) = (Health::new(policy), Health::new(policy));
        let mut now = Moment(1_000_000);
        for (cluster, model, event, pause, jitter) in history {
            now = Moment(now.0 + pause);
            health.ended(now);
            again.ended(now);
            let (cluster, model) = (CLUSTERS[cluster], MODELS[model]);
            let before = health.view(now);
            let cooled_before = Seen::new(&before, now).is_cooling(cluster, model);
            let change = health.note(cluster, model, event, now, jitter);
            prop_assert_eq!(&change, &again.note(cluster, model, event, now, jitter));
            prop_assert_eq!(health.view(now), again.view(now));
            let view = health.view(now);
            let cooled = Seen::new(&view, now).is_cooling(cluster, model);
            prop_assert!(cooled || !cooled_before, "nothing that happened may end a cooldown");
            match event {
                Event::RateLimited { .. } | Event::NoHost => prop_assert!(cooled),
                Event::Answered => prop_assert!(change.is_none() && cooled == cooled_before),
                Event::Failed(_) => {}
            }
            if let Some(Change { cooldown, .. }) = change {
                prop_assert!(cooldown.until > now && cooldown.until <= now.after(policy.max_cooldown));
                if let Event::RateLimited { retry_after } = event {
                    let asked = retry_after.unwrap_or(policy.cooldown).min(policy.max_cooldown);
                    prop_assert!(cooldown.until >= now.after(asked), "jitter only lengthens");
                }
            }
        }
        let far = now.after(policy.max_cooldown);
        prop_assert!(health.view(far).is_empty(), "time ends every cooldown");
    }
}
