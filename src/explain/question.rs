//! A question as JSON: what `POST /explain` takes. The names are those of the command line's flags.

use serde_json::{Map, Value};

use super::Question;

const FIELDS: [&str; 10] = ["model", "tenant", "session", "path", "method", "headers", "body", "random", "attempts", "cooling"];

impl Question {
    /// Takes an object with the names of the explain flags. `headers` is an object of texts or lists of texts; `body` is a text, or
    /// an object that is sent as JSON.
    ///
    /// # Errors
    /// Says which field is wrong and what it takes.
    pub fn from_json(value: &Value) -> Result<Self, String> {
        let Value::Object(object) = value else {
            return Err("the question is a JSON object, as in {\"model\": \"gpt-4o\"}".to_owned());
        };
        if let Some(unknown) = object.keys().find(|key| !FIELDS.contains(&key.as_str())) {
            return Err(format!("unknown field `{unknown}`: a question has {}", FIELDS.join(", ")));
        }
        Ok(Self {
            model: text(object, "model")?,
            tenant: text(object, "tenant")?,
            session: text(object, "session")?,
            path: text(object, "path")?,
            method: text(object, "method")?,
            headers: headers(object.get("headers"))?,
            body: match object.get("body") {
                None | Some(Value::Null) => None,
                Some(Value::String(body)) => Some(body.clone().into_bytes()),
                Some(json @ (Value::Object(_) | Value::Array(_))) => Some(json.to_string().into_bytes()),
                Some(_) => return Err("`body` is a text, or an object that is sent as JSON".to_owned()),
            },
            random: number(object, "random")?,
            attempts: number(object, "attempts")?.map(|number| usize::try_from(number).unwrap_or(usize::MAX)),
            cooling: cooling(object.get("cooling"))?,
        })
    }
}

fn text(object: &Map<String, Value>, name: &str) -> Result<Option<String>, String> {
    match object.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(_) => Err(format!("`{name}` is a text")),
    }
}

/// A u64 may exceed what a JSON number holds exactly in some languages, so a text of digits is taken as well.
fn number(object: &Map<String, Value>, name: &str) -> Result<Option<u64>, String> {
    let wrong = || format!("`{name}` is a whole number from 0 to {}", u64::MAX);
    match object.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Number(number)) => number.as_u64().map(Some).ok_or_else(wrong),
        Some(Value::String(text)) => text.parse().map(Some).map_err(|_| wrong()),
        Some(_) => Err(wrong()),
    }
}

fn cooling(value: Option<&Value>) -> Result<Vec<String>, String> {
    let wrong = || "`cooling` is a list of clusters, each `cluster` or `cluster=model`".to_owned();
    match value {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(Value::Array(items)) => items.iter().map(|item| item.as_str().map(str::to_owned).ok_or_else(wrong)).collect(),
        Some(_) => Err(wrong()),
    }
}

fn headers(value: Option<&Value>) -> Result<Vec<(String, String)>, String> {
    let wrong = || "`headers` is an object of texts or lists of texts".to_owned();
    let object = match value {
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(Value::Object(object)) => object,
        Some(_) => return Err(wrong()),
    };
    let mut headers = Vec::new();
    for (name, value) in object {
        let values = match value {
            Value::Array(values) => values.as_slice(),
            single => std::slice::from_ref(single),
        };
        for value in values {
            headers.push((name.clone(), value.as_str().ok_or_else(wrong)?.to_owned()));
        }
    }
    Ok(headers)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_question_has_the_names_of_the_flags() {
        let question = Question::from_json(&json!({
            "model": "m", "tenant": "t", "session": null, "path": "/v1/messages", "method": "POST",
            "headers": {"a": "1", "b": ["2", "3"]}, "body": {"model": "x"}, "random": "18446744073709551615", "attempts": 3,
            "cooling": ["c", "d=m"]
        }));
        let expected = Question {
            model: Some("m".to_owned()),
            tenant: Some("t".to_owned()),
            session: None,
            path: Some("/v1/messages".to_owned()),
            method: Some("POST".to_owned()),
            headers: [("a", "1"), ("b", "2"), ("b", "3")].map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec(),
            body: Some(br#"{"model":"x"}"#.to_vec()),
            random: Some(u64::MAX),
            attempts: Some(3),
            cooling: vec!["c".to_owned(), "d=m".to_owned()],
        };
        assert_eq!(question, Ok(expected));
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (question, word) in [
            (json!([]), "object"),
            (json!({"modle": "x"}), "modle"),
            (json!({"model": 1}), "`model`"),
            (json!({"headers": ["a"]}), "`headers`"),
            (json!({"headers": {"a": 1}}), "`headers`"),
            (json!({"body": 1}), "`body`"),
            (json!({"random": -1}), "`random`"),
            (json!({"attempts": "x"}), "`attempts`"),
            (json!({"cooling": "c"}), "`cooling`"),
        ] {
            let error = Question::from_json(&question).unwrap_err();
            assert!(error.contains(word), "{error}");
        }
    }
}
