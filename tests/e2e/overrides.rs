//! What Envoy makes of the groups of an override.

use crate::answer::{Answer, group, list, named, object, weighted};
use crate::gateway::{chat, providers};
use crate::processor::at_body;

// Fact 11
#[tokio::test]
async fn a_group_that_is_only_a_name_is_envoys_own_group_of_that_name() {
    let gateway = providers(&[("first", 200), ("second", 429), ("third", 200)]).start(at_body(Answer::empty())).await;

    let by_name = Answer::chain(&[named("second"), named("third")]);
    gateway.send_with(at_body(by_name), chat()).await.went("second(429) third(200)");
    let mixed = Answer::chain(&[named("second"), group("mine", "first")]);
    gateway.send_with(at_body(mixed), chat()).await.went("second(429) first(200)");
}
