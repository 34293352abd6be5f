//! SIGHUP: what is read again anyway is read again now. It never ends the process, and it changes no setting: those of a process hold
//! for its life.

use std::path::Path;

use tokio::sync::watch;
use tracing::{info, warn};

use crate::catalog::load::SourceFile;
use crate::server::Hangups;

/// Acts on each SIGHUP, for as long as it is polled. `secrets` has the files of secrets read, `catalog` the catalog's source.
pub(super) async fn read_again(
    mut hangups: Hangups,
    settings: Option<SourceFile>,
    secrets: watch::Sender<u64>,
    catalog: impl Fn() + Send,
) {
    loop {
        hangups.next().await;
        info!("SIGHUP: the catalog, keys and tokens are read again");
        secrets.send_modify(|times| *times += 1);
        catalog();
        let Some(SourceFile { name, text }) = settings.clone() else { continue };
        // Whatever the file system does, the catalog and the secrets are read.
        let looked = tokio::task::spawn_blocking(move || (std::fs::read_to_string(Path::new(&*name)), name));
        let text = text.clone();
        tokio::spawn(async move {
            match looked.await {
                Ok((Ok(now), path)) if now != *text => {
                    warn!(path = &*path, "the settings have changed since the start: that needs a restart");
                }
                Ok((Err(error), path)) => {
                    warn!(path = &*path, %error, "the settings cannot be read any more: a restart would fail");
                }
                Ok((Ok(_), _)) | Err(_) => {}
            }
        });
    }
}
