//! Who may cool and clear clusters: with an `admin_token_file`, whoever shows a token of it, wherever the admin address is.

use crate::catalog::Home;
use crate::http::{self, Response};
use crate::process::{Cascade, eventually};

const TOKEN: &str = "a-token-of-the-night-shift";

struct Scene {
    cascade: Cascade,
    home: Home,
}

impl Scene {
    async fn set(admin: &str) -> Self {
        let home = Home::with_catalog("one");
        home.write("tokens", &format!("{TOKEN}\n"));
        let (catalog, tokens) = (home.text("catalog.yaml"), home.text("tokens"));
        let admin = admin.replace("HOME", home.text("").trim_end_matches('/'));
        let settings = [("ADMIN_TOKEN_FILE", tokens.as_str())];
        let cascade = Cascade::ready(&["--catalog", &catalog, "--admin", &admin], &settings).await;
        Self { cascade, home }
    }

    async fn cool(&self, authorization: Option<&str>) -> Response {
        self.post("/clusters/left/cool?seconds=600", authorization).await
    }

    async fn post(&self, path: &str, authorization: Option<&str>) -> Response {
        let line = authorization.map(|value| format!("authorization: {value}\r\n")).unwrap_or_default();
        http::send_with(&self.cascade.admin().await, "POST", path, &line, b"").await
    }

    async fn state(&self) -> String {
        let list = self.cascade.get("/clusters").await.json();
        list["clusters"][0]["state"].as_str().unwrap().to_owned()
    }
}

#[tokio::test]
async fn a_token_is_asked_for_at_every_address_and_opens_it() {
    for admin in ["127.0.0.1:0", "unix:HOME/admin.sock", "0.0.0.0:0"] {
        let scene = Scene::set(admin).await;
        for shown in [None, Some("Bearer another-token-of-someone"), Some(TOKEN), Some("Bearer")] {
            let answer = scene.cool(shown).await;
            assert_eq!(answer.status, 401, "{admin} {shown:?}: {answer:?}");
            assert!(answer.head.contains("www-authenticate: bearer"), "{answer:?}");
            assert!(answer.json()["hint"].as_str().unwrap().contains("admin_token_file"), "{answer:?}");
            assert!(!answer.text().contains(TOKEN));
            // No is said before anything is looked up.
            assert_eq!(scene.post("/clusters/nobody/clear", shown).await.status, 401);
        }
        assert_eq!(scene.state().await, "healthy", "reading takes no token");
        let right = format!("Bearer {TOKEN}");
        assert_eq!(scene.cool(Some(&right)).await.status, 200);
        assert_eq!(scene.state().await, "cooling");
        assert_eq!(scene.post("/clusters/left/clear", Some(&right)).await.status, 200);
        assert_eq!(scene.state().await, "healthy");
        assert!(!scene.cascade.output().contains(TOKEN));
    }
}

#[tokio::test]
async fn a_changed_file_changes_the_tokens_and_one_that_says_nothing_takes_all_back() {
    let scene = Scene::set("127.0.0.1:0").await;
    scene.home.write("tokens", "the-token-that-comes-after\n");
    let new = Some("Bearer the-token-that-comes-after");
    eventually("the new token", async || (scene.cool(new).await.status == 200).then_some(())).await;
    assert_eq!(scene.cool(Some(&format!("Bearer {TOKEN}"))).await.status, 401);
    let path = scene.home.path("tokens");
    type Act<'a> = &'a dyn Fn();
    let acts: [(&str, Act); 4] = [
        ("emptied", &|| scene.home.write("tokens", "")),
        ("removed", &|| std::fs::remove_file(&path).unwrap()),
        ("replaced by what is no token", &|| scene.home.write("tokens", "short\n")),
        ("replaced by what never ends", &|| {
            std::fs::remove_file(&path).unwrap();
            assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        }),
    ];
    for (what, act) in acts {
        act();
        scene.cascade.hang_up();
        eventually(what, async || (scene.cool(new).await.status == 401).then_some(())).await;
        assert_eq!(scene.cool(Some("Bearer ")).await.status, 401, "{what}");
        let said = scene.cascade.output();
        assert!(said.contains("admin_token_file cannot be used: nobody may cool or clear clusters"), "{what}: {said}");
        assert_eq!(scene.state().await, "cooling", "reading goes on");
        if path.exists() {
            std::fs::remove_file(&path).unwrap();
        }
        scene.home.write("tokens", "the-token-that-comes-after\n");
        eventually("it is back", async || (scene.cool(new).await.status == 200).then_some(())).await;
    }
}

#[tokio::test]
async fn a_file_without_a_token_ends_the_start() {
    let home = Home::with_catalog("one");
    home.write("empty", "\n");
    home.write("short", "password\n");
    for (name, told) in [("missing", "admin_token_file"), ("empty", "holds no token"), ("short", "16 characters")] {
        let catalog = home.text("catalog.yaml");
        let mut cascade = Cascade::start(&["--catalog", &catalog], &[("ADMIN_TOKEN_FILE", &home.text(name))]);
        let (code, output) = cascade.ended().await;
        assert_eq!(code, Some(78), "{name}: {output}");
        assert!(output.contains(told) && !output.contains("password"), "{name}: {output}");
    }
}
