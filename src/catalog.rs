//! The catalog: who may use which model, and through which clusters. A compiler in four steps: `load` reads files, `document`
//! says what may stand in them, `validate` finds all that is wrong, `compile` makes the [`snapshot::Snapshot`] that cannot be
//! invalid. It knows no request.

pub mod expectations;
pub mod pattern;
pub mod snapshot;
