//! JSON Schema from a [`super::shape::Shape`].
