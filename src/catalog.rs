//! The catalog: who may use which model, and through which clusters. A compiler in four steps: `load` reads files, `document`
//! says what may stand in them, `validate` finds all that is wrong, `compile` makes the [`snapshot::Snapshot`] that cannot be
//! invalid. It knows no request.

pub mod expectations;
#[cfg(feature = "server")]
pub mod last_good;
#[cfg(feature = "server")]
pub mod origin;
pub mod pattern;
#[cfg(feature = "server")]
pub mod remote;
pub mod snapshot;
#[cfg(feature = "server")]
pub mod store;
#[cfg(feature = "server")]
pub mod stub;
#[cfg(feature = "server")]
pub mod watch;
