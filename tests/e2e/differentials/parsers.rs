//! The servers of `tests/differentials/parsers`, made ready once for all test processes and started on ports of their own.

use std::env;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use cascade::lab::{Scratch, eventually};

use crate::gateway::ok;
use crate::town::LIMIT;

/// One name a parser: its cluster's, its group's and its tenant's.
pub const NAMES: [&str; 5] = ["go", "express", "starlette", "werkzeug", "nginx"];

const PYTHON: [&str; 4] = ["starlette==1.10.0", "uvicorn==0.54.0", "python-multipart==0.0.34", "werkzeug==3.1.9"];
const NPM: [&str; 2] = ["express@4.22.3", "busboy@1.6.0"];

/// A running server; it ends with its owner.
pub struct Parser {
    pub name: &'static str,
    pub address: SocketAddr,
    child: Child,
    _scratch: Option<Scratch>,
}

impl Drop for Parser {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// All of them, ready to answer.
pub async fn start() -> Vec<Parser> {
    let Tools { go, node_modules, python } = tokio::task::spawn_blocking(tools).await.unwrap();
    let source = |name: &str| folder().join(name).display().to_string();
    let command = |program: &str, arguments: &[&str]| {
        let mut command = Command::new(program);
        command.args(arguments).env("NODE_PATH", &node_modules);
        command
    };
    let starlette = speaks("starlette", command(&python, &[&source("python.py"), "starlette"]));
    let parsers = vec![
        speaks("go", command(&go, &[])),
        speaks("express", command("node", &[&source("express.js")])),
        speaks("werkzeug", command(&python, &[&source("python.py"), "werkzeug"])),
        nginx(starlette.address),
        starlette,
    ];
    for parser in &parsers {
        let answers = async || TcpStream::connect(parser.address).ok();
        ok(eventually(&format!("{} on {}", parser.name, parser.address), LIMIT, answers).await);
    }
    parsers
}

/// Starts a server that says its port in its first line.
fn speaks(name: &'static str, mut command: Command) -> Parser {
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let port = line.trim().parse().unwrap_or_else(|_| panic!("{name} says no port but {line:?}"));
    Parser { name, address: SocketAddr::from((Ipv4Addr::LOCALHOST, port)), child, _scratch: None }
}

/// nginx as it is often put in front of a provider: it sends on the path that it has made plain.
fn nginx(behind: SocketAddr) -> Parser {
    let scratch = ok(Scratch::new());
    let home = scratch.path().display().to_string();
    // nginx cannot be given a socket or say its port: one that was free a moment ago is taken.
    let address = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap();
    let text = format!(
        "daemon off;\nmaster_process off;\npid {home}/pid;\nerror_log {home}/error.log;\nevents {{}}\nhttp {{\n  access_log off;\n  \
         client_body_temp_path {home}/body;\n  proxy_temp_path {home}/proxy;\n  fastcgi_temp_path {home}/f;\n  \
         uwsgi_temp_path {home}/u;\n  scgi_temp_path {home}/s;\n  client_max_body_size 0;\n  server {{\n    listen {address};\n    \
         location / {{ proxy_http_version 1.1; proxy_pass http://{behind}/; }}\n  }}\n}}\n"
    );
    let configuration = ok(scratch.write("nginx.conf", &text)).display().to_string();
    let error_log = format!("{home}/error.log");
    let arguments = ["-c", &configuration, "-p", &home, "-e", &error_log];
    let child = Command::new(nginx_program()).args(arguments).stdin(Stdio::null()).spawn().unwrap();
    Parser { name: "nginx", address, child, _scratch: Some(scratch) }
}

/// Debian keeps it where only root's PATH looks.
fn nginx_program() -> PathBuf {
    let places = env::var_os("PATH").unwrap_or_default();
    let found = env::split_paths(&places).chain([PathBuf::from("/usr/sbin")]).map(|place| place.join("nginx"));
    found.into_iter().find(|path| path.is_file()).unwrap_or_else(|| panic!("install nginx (Debian: apt-get install nginx-light)"))
}

struct Tools {
    go: String,
    node_modules: String,
    python: String,
}

/// Builds and installs what is not in the cache yet.
fn tools() -> Tools {
    let cache =
        env::var_os("XDG_CACHE_HOME").map(PathBuf::from).or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(".cache")));
    let cache = cache.unwrap_or_else(|| panic!("XDG_CACHE_HOME or HOME says where parsers may be installed")).join("cascade");
    fs::create_dir_all(&cache).unwrap();
    let lock = File::create(cache.join("parsers.lock")).unwrap();
    lock.lock().unwrap();

    let python = once(&cache, &PYTHON.join("-"), |home| {
        run("python3", &["-m", "venv", &home], &home);
        let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input"];
        run(&format!("{home}/bin/python3"), &[pip.as_slice(), &PYTHON].concat(), &home);
    });
    let npm = once(&cache, &NPM.join("-"), |home| {
        let arguments = ["install", "--silent", "--no-audit", "--no-fund", "--no-save", "--prefix", &home];
        run("npm", &[arguments.as_slice(), &NPM].concat(), &home);
    });
    let source = folder().join("go.go");
    let version = format!(
        "parser-go-{}",
        fs::read(&source).unwrap().iter().fold(0_u64, |sum, byte| sum.wrapping_mul(31) + u64::from(*byte))
    );
    let go = once(&cache, &version, |home| {
        run("go", &["build", "-o", &format!("{home}/parser"), &source.display().to_string()], &home);
    });
    Tools { go: format!("{go}/parser"), node_modules: format!("{npm}/node_modules"), python: format!("{python}/bin/python3") }
}

/// A folder of the cache, filled once.
fn once(cache: &Path, name: &str, fill: impl FnOnce(String)) -> String {
    let name: String = name.chars().map(|c| if c.is_ascii_alphanumeric() || c == '.' { c } else { '-' }).collect();
    let home = cache.join(name);
    let done = home.join("done");
    if !done.exists() {
        drop(fs::remove_dir_all(&home));
        fs::create_dir_all(&home).unwrap();
        eprintln!("Making {} ready (once) ...", home.display());
        fill(home.display().to_string());
        fs::write(&done, "").unwrap();
    }
    home.display().to_string()
}

fn run(program: &str, arguments: &[&str], home: &str) {
    let told = Command::new(program).args(arguments).env("GOCACHE", format!("{home}/go")).env("GOFLAGS", "-mod=mod").output();
    let told = told.unwrap_or_else(|error| {
        panic!("cannot run {program}: {error}; these tests need Go, Node with npm, and Python 3 with venv (`.ci/test` installs them on Debian)")
    });
    let said = format!("{}{}", String::from_utf8_lossy(&told.stdout), String::from_utf8_lossy(&told.stderr));
    assert!(told.status.success(), "`{program} {}` failed:\n{said}", arguments.join(" "));
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/differentials/parsers")
}
