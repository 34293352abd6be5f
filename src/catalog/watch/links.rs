//! Which directories have to be watched to notice that a path means something else: each turn of a link is an event in the directory
//! that holds the link. It knows no events.

use std::collections::{BTreeSet, VecDeque};
use std::fs;
use std::path::{Component, Path, PathBuf};

/// How many directories are watched at most; a source with more links is found by the poll.
const MAX_DIRECTORIES: usize = 64;
/// As many links as Linux follows in one path.
const MAX_LINKS: usize = 40;

/// The directories whose events may mean a change of a path: where it is, where each link on the way to it is, and, if it is a
/// directory, the same for the links in it. Blocks.
pub(super) fn directories(path: &Path) -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    on_the_way(path, &mut found);
    if path.is_dir() {
        found.insert(path.to_path_buf());
        for entry in fs::read_dir(path).into_iter().flatten().flatten() {
            if found.len() < MAX_DIRECTORIES && entry.file_type().is_ok_and(|kind| kind.is_symlink()) {
                on_the_way(&entry.path(), &mut found);
            }
        }
    }
    found
}

/// Resolves a path as the system does, part by part, and keeps the directory of each link and of the end.
fn on_the_way(path: &Path, found: &mut BTreeSet<PathBuf>) {
    let Ok(path) = std::path::absolute(path) else { return };
    let (mut at, mut links) = (PathBuf::new(), 0);
    let mut rest: VecDeque<PathBuf> = path.components().map(|part| PathBuf::from(part.as_os_str())).collect();
    while let Some(part) = rest.pop_front() {
        match part.components().next() {
            Some(Component::ParentDir) => {
                at.pop();
            }
            Some(Component::Normal(_)) => match fs::read_link(at.join(&part)) {
                Ok(target) if links < MAX_LINKS => {
                    links += 1;
                    found.insert(at.clone());
                    for part in target.components().rev() {
                        rest.push_front(PathBuf::from(part.as_os_str()));
                    }
                }
                Ok(_) => return,
                Err(_) => at.push(part),
            },
            Some(Component::RootDir | Component::Prefix(_)) => at.push(part),
            Some(Component::CurDir) | None => {}
        }
    }
    if !at.is_dir() {
        at.pop();
    }
    found.insert(at);
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// `mount/catalog.yaml → ../releases/now/catalogs/catalog.yaml`, where `now` is a link as well: each turn of a link is an
    /// event in the directory that holds the link.
    #[test]
    fn every_directory_that_holds_a_link_on_the_way_is_watched() {
        let home = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(home.path()).unwrap();
        fs::create_dir_all(root.join("releases/1/catalogs")).unwrap();
        fs::create_dir(root.join("mount")).unwrap();
        fs::write(root.join("releases/1/catalogs/catalog.yaml"), "x").unwrap();
        symlink("1", root.join("releases/now")).unwrap();
        symlink("../releases/now/catalogs/catalog.yaml", root.join("mount/catalog.yaml")).unwrap();
        symlink("mount", root.join("current")).unwrap();
        let of = |source: &str| -> Vec<String> {
            let shown = |path: PathBuf| format!("/{}", path.strip_prefix(&root).unwrap().display());
            directories(&root.join(source)).into_iter().map(shown).collect()
        };
        assert_eq!(of("mount/catalog.yaml"), ["/mount", "/releases", "/releases/1/catalogs"]);
        assert_eq!(of("current"), ["/", "/current", "/mount", "/releases", "/releases/1/catalogs"]);
        assert_eq!(of("releases/1/catalogs"), ["/releases/1/catalogs"]);
        symlink("loop", root.join("loop")).unwrap();
        assert_eq!(of("loop"), ["/"], "a loop ends");
    }
}
