//! What counts as a file of a catalog, on a real file system.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;

use tempfile::TempDir;

use super::*;
use crate::diagnostic::Severity;

fn names(directory: &TempDir) -> Vec<String> {
    let files = read(directory.path()).unwrap().texts;
    files.iter().map(|file| file.name.rsplit('/').next().unwrap().to_owned()).collect()
}

fn codes(result: Result<Files, LoadError>, directory: &TempDir) -> Vec<String> {
    let Err(LoadError::Invalid(found)) = result else { panic!("{result:?}") };
    let root = format!("{}", directory.path().display());
    found.iter().map(|fault| format!("{} {}", fault.code, fault.place.to_string().replace(&root, "."))).collect()
}

#[test]
fn a_directory_gives_its_catalog_files_in_order() {
    let directory = TempDir::new().unwrap();
    for name in ["b.yaml", "a.json", "c.yml", ".hidden.yaml", "d.yaml~", "e.YAML", "f.txt", "g.yaml.swp"] {
        fs::write(directory.path().join(name), name).unwrap();
    }
    fs::create_dir_all(directory.path().join("inner.yaml")).unwrap();
    fs::write(directory.path().join("inner.yaml/h.yaml"), "h").unwrap();
    assert_eq!(names(&directory), ["a.json", "b.yaml", "c.yml"]);
    let files = read(directory.path()).unwrap().texts;
    assert_eq!(&*files[0].text, "a.json");
    assert_eq!(&*files[0].name, directory.path().join("a.json").display().to_string(), "the name is what the operator can open");
}

#[test]
fn a_mounted_config_map_is_read_from_one_state() {
    let directory = TempDir::new().unwrap();
    let root = directory.path();
    for (state, text) in [("..2024", "old"), ("..2025", "new")] {
        fs::create_dir(root.join(state)).unwrap();
        for name in ["a.yaml", "b.yaml"] {
            fs::write(root.join(state).join(name), text).unwrap();
        }
    }
    symlink("..2024", root.join("..data")).unwrap();
    for name in ["a.yaml", "b.yaml"] {
        symlink(format!("..data/{name}"), root.join(name)).unwrap();
    }
    fs::write(root.join("plain.yaml"), "plain").unwrap();
    symlink(root.join("..2024/a.yaml"), root.join("link.yaml")).unwrap();
    let texts = || read(root).unwrap().texts.iter().map(|file| file.text.to_string()).collect::<Vec<_>>();
    assert_eq!(texts(), ["old", "old", "old", "plain"]);
    symlink("..2025", root.join("..data_tmp")).unwrap();
    fs::rename(root.join("..data_tmp"), root.join("..data")).unwrap();
    assert_eq!(texts(), ["new", "new", "old", "plain"]);
}

#[test]
fn what_is_not_there_may_come_and_is_no_fault_of_the_catalog() {
    let directory = TempDir::new().unwrap();
    let missing = directory.path().join("missing.yaml");
    assert!(matches!(read(&missing), Err(LoadError::Unreachable(why)) if why.contains("missing.yaml")));
    // A link that leads nowhere: a mount that is being changed.
    symlink(&missing, directory.path().join("link.yaml")).unwrap();
    assert!(matches!(read(directory.path()), Err(LoadError::Unreachable(_))));
}

#[test]
fn what_cannot_be_a_catalog_says_why() {
    let directory = TempDir::new().unwrap();
    let path = |name: &str| directory.path().join(name);
    assert_eq!(codes(read(directory.path()), &directory), ["no-catalog-files ."]);
    fs::write(path("a.yaml"), b"version: 1\nlabel: \xc3\xa9t\xff").unwrap();
    fs::write(path("b.yaml"), b"\xff").unwrap();
    fs::write(path("c.yaml"), b"fine").unwrap();
    fs::write(path("d.yaml"), b"a\n\xff").unwrap();
    assert_eq!(
        codes(read(directory.path()), &directory),
        ["not-utf8 ./a.yaml:2:10", "not-utf8 ./b.yaml:1:1", "not-utf8 ./d.yaml:2:1"]
    );
}

#[test]
fn reading_is_bounded_over_all_files_together() {
    let directory = TempDir::new().unwrap();
    let half = "x".repeat(MAX_BYTES / 2 + 1);
    fs::write(directory.path().join("a.yaml"), &half).unwrap();
    assert!(read(directory.path()).is_ok());
    fs::write(directory.path().join("b.yaml"), &half).unwrap();
    assert_eq!(codes(read(directory.path()), &directory), ["too-big ./b.yaml"]);
    assert!(read(&directory.path().join("b.yaml")).is_ok());
}

#[test]
fn a_link_that_leads_nowhere_is_named() {
    for target in ["gone.yaml", "loop.yaml"] {
        let directory = TempDir::new().unwrap();
        fs::write(directory.path().join("a.yaml"), "a").unwrap();
        symlink(target, directory.path().join("loop.yaml")).unwrap();
        let Err(LoadError::Unreachable(why)) = read(directory.path()) else { panic!("{target}") };
        assert!(why.contains("/loop.yaml: "), "{why}");
    }
}

#[test]
fn a_file_whose_name_only_looks_like_a_catalogs_is_warned_of() {
    let directory = TempDir::new().unwrap();
    fs::write(directory.path().join("a.yaml"), "a").unwrap();
    let odd: [&[u8]; 8] = [b"B.YAML", b"c.Yml", b"d.JSON", b"e\xff.yaml", b"f.ymal", b"g.yaml.txt", b"h.jsonc", b"i.yaml "];
    for name in odd {
        fs::write(directory.path().join(OsStr::from_bytes(name)), "x").unwrap();
    }
    // What editors, package managers and people put beside it on purpose.
    for name in ["a.yaml~", "#a.yaml#", ".a.yaml.swp", "4913", "a.yaml.bak", "README.md", "a.yaml.rpmsave", "notes.txt", "x.sh"] {
        fs::write(directory.path().join(name), "x").unwrap();
    }
    fs::create_dir(directory.path().join("INNER.YAML")).unwrap();
    let Files { texts, warnings, .. } = read(directory.path()).unwrap();
    assert_eq!(texts.len(), 1);
    let found: Vec<&str> = warnings.iter().map(|warning| warning.place.source.rsplit('/').next().unwrap()).collect();
    assert_eq!(found, ["B.YAML", "c.Yml", "d.JSON", "e\u{fffd}.yaml", "f.ymal", "g.yaml.txt", "h.jsonc", "i.yaml "]);
    assert!(warnings.iter().all(|warning| warning.code == "file-not-read" && warning.severity == Severity::Warning));
    fs::remove_file(directory.path().join("a.yaml")).unwrap();
    let Err(LoadError::Invalid(found)) = read(directory.path()) else { panic!() };
    assert_eq!(found.len(), 9, "what lies there instead is said beside the error: {found:?}");
}

#[test]
fn what_could_keep_a_reader_waiting_is_refused_and_never_opened() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("a.yaml");
    let fifo = || assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
    let socket = || drop(UnixListener::bind(&path).unwrap());
    let device = || symlink("/dev/zero", &path).unwrap();
    for make in [&fifo as &dyn Fn(), &socket, &device] {
        make();
        let name = path.display().to_string();
        assert_eq!(codes(read(&path), &directory), ["special-file ./a.yaml"], "{name}");
        assert_eq!(codes(read(directory.path()), &directory), ["special-file ./a.yaml"]);
        fs::remove_file(&path).unwrap();
    }
}

#[test]
fn the_last_change_is_that_of_the_directory_too_and_no_copied_time() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("a.yaml");
    fs::write(&path, "a").unwrap();
    let file = File::options().append(true).open(&path).unwrap();
    file.set_modified(SystemTime::now() - Duration::from_secs(3_600)).unwrap();
    let recent = |changed: Option<SystemTime>| changed.unwrap().elapsed().unwrap_or_default() < Duration::from_secs(600);
    assert!(recent(read(&path).unwrap().changed) && recent(read(directory.path()).unwrap().changed));
}
