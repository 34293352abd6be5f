//! The catalog: who may use which model, and through which clusters. A compiler in four steps: `load` reads files, `merge` makes
//! one document of them, `document` says what may stand in it, `compile` finds all that is wrong and makes the
//! [`snapshot::Snapshot`] that cannot be invalid. It knows no request.

pub mod compile;
pub mod document;
pub mod expectations;
#[cfg(feature = "server")]
pub mod last_good;
pub mod load;
pub mod loosening;
mod merge;
#[cfg(feature = "server")]
pub mod origin;
pub mod path_prefix;
pub mod pattern;
#[cfg(feature = "server")]
pub mod remote;
mod revision;
pub mod snapshot;
#[cfg(feature = "server")]
pub mod store;
mod validate;
#[cfg(feature = "server")]
pub mod watch;
