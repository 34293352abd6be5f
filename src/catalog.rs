//! The catalog: who may use which model, and through which clusters. A compiler in four steps: `load` reads files, `merge` makes
//! one document of them, `document` says what may stand in it, `compile` finds all that is wrong and makes the
//! [`snapshot::Snapshot`] that cannot be invalid. It knows no request.

pub mod compile;
pub mod document;
pub mod expectations;
pub mod load;
mod merge;
pub mod pattern;
mod revision;
pub mod snapshot;
mod validate;
