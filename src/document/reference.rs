//! The pages of the documentation that list every field, from the same [`Shape`] that checks documents: they cannot say anything
//! else than what is checked.

use std::fmt::Write;

use super::shape::{Field, Record, Shape};

/// A table for each mapping with known fields, in the order in which they are met.
#[must_use]
pub fn markdown(shape: &Shape, title: &str) -> String {
    let mut out =
        format!("# {title}\n\nMade from the table that checks these documents; `cascade schema` prints it for editors.\n");
    let mut seen: Vec<*const Field> = Vec::new();
    sections(shape, "", &mut seen, &mut out);
    out
}

fn sections(shape: &Shape, path: &str, seen: &mut Vec<*const Field>, out: &mut String) {
    match shape {
        Shape::Record(record) => {
            let place = record.fields.as_ptr();
            if seen.contains(&place) {
                return;
            }
            seen.push(place);
            section(record, path, out);
            for field in record.fields {
                let below = if path.is_empty() { field.name.to_owned() } else { format!("{path}.{}", field.name) };
                sections(&field.shape, &below, seen, out);
            }
        }
        Shape::Map(inner) => sections(inner, &format!("{path}.<name>"), seen, out),
        Shape::List(inner) => sections(inner, &format!("{path}[]"), seen, out),
        Shape::OneOf(shapes) => shapes.iter().for_each(|shape| sections(shape, path, seen, out)),
        Shape::Text
        | Shape::Name
        | Shape::KeyHash
        | Shape::Choice(_)
        | Shape::Bool
        | Shape::Integer(..)
        | Shape::Duration
        | Shape::Size
        | Shape::Object => {}
    }
}

fn section(record: &Record, path: &str, out: &mut String) {
    let heading = if path.is_empty() { record.title.to_owned() } else { format!("`{path}`: {}", record.title) };
    let _ = write!(out, "\n## {heading}\n\n| field | takes | default | example | meaning |\n|---|---|---|---|---|\n");
    for field in record.fields {
        let code = |json: Option<&str>| json.map(|json| format!("`{}`", cell(json))).unwrap_or_default();
        let default = if field.required { "required".to_owned() } else { code(field.default) };
        let _ = writeln!(
            out,
            "| `{}` | {} | {default} | {} | {} |",
            field.name,
            cell(&field.shape.words()),
            code(field.example),
            cell(field.doc)
        );
    }
}

/// A bar would end the cell.
fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::catalog::document::CATALOG;

    /// With `CASCADE_WRITE_DOCS` set the page is written instead, for a commit to show what changed.
    fn is_current(page: &str, expected: &str) {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs").join(page);
        if std::env::var_os("CASCADE_WRITE_DOCS").is_some() {
            std::fs::write(&path, expected).unwrap();
        }
        let written = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(written == expected, "docs/{page} is out of date: run `CASCADE_WRITE_DOCS=1 cargo test --lib reference`");
    }

    #[test]
    fn the_catalog_page_is_current() {
        is_current("catalog-fields.md", &markdown(&CATALOG, "Every field of a catalog"));
    }

    #[cfg(feature = "server")]
    #[test]
    fn the_settings_page_is_current() {
        is_current("settings-fields.md", &markdown(&crate::settings::document::SETTINGS, "Every field of cascade.yaml"));
    }
}
