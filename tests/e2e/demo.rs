//! `cascade demo` as a user runs it.

use std::process::Command;

use cascade::lab::binary;

use crate::cases::CASCADE;
use crate::gateway::ok;

#[test]
fn the_demo_sends_every_request_where_it_should_go() {
    let output = Command::new(CASCADE).args(["demo", "--once"]).env("ENVOY_BIN", ok(binary::find())).output().unwrap();
    let (told, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{told}{errors}");
    assert!(told.contains("8 of 8 went where they should."), "{told}");
    for line in ["onprem_primary(429), azure_backup(200)", "gpu_closet(UF), anthropic_main(200)", "reject: model_not_allowed"] {
        assert!(told.contains(line), "{line} in {told}");
    }
    let wide: Vec<&str> = told.lines().filter(|line| line.chars().count() > 80).collect();
    assert!(wide.is_empty(), "a terminal of 80 columns would break {wide:?}");
}

#[test]
fn a_demo_without_envoy_fails_and_says_what_to_do() {
    let output = Command::new(CASCADE).args(["demo", "--once"]).env("ENVOY_BIN", "/nowhere/envoy").output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1));
    assert!(errors.contains("/nowhere/envoy") && errors.contains("set ENVOY_BIN"), "{errors}");
}
