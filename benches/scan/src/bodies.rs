//! Bodies as clients send them, made up without chance: the same bytes in every run.

use serde_json::{Value, json, to_string, to_string_pretty};

/// Name and bytes of each body; the model stands at the end.
pub fn all(model: &str) -> Vec<(&'static str, Vec<u8>)> {
    let escaped = chat(&TEXTS[..4], 60);
    let bodies = [
        ("small chat", with_model(&chat(&TEXTS[..2], 2), model, false)),
        ("chat, English", with_model(&escaped, model, false)),
        ("chat, many tongues", with_model(&chat(&TEXTS, 60), model, false)),
        ("chat, Chinese", with_model(&chat(&TEXTS[5..6], 400), model, false)),
        ("chat, \\u escapes", ascii(&with_model(&chat(&TEXTS[4..], 60), model, false))),
        ("image as data URL", with_model(&image(1_000_000), model, false)),
        ("tool schemas", with_model(&tools(120), model, false)),
        ("tool schemas, pretty", with_model(&tools(120), model, true)),
        ("nested deep", with_model(&nested(400), model, false)),
        ("numbers", with_model(&numbers(30_000), model, false)),
    ];
    bodies.map(|(name, body)| (name, body.into_bytes())).into()
}

const TEXTS: [&str; 7] = [
    "Could you look at why the second retry goes to the same group as the first one? The log says \"no healthy upstream\", and yet \
     the cluster has two endpoints that answer when I ask them by hand. I have attached what I tried so far.",
    "Sure. There are three things to look at:\n\n1. **The retry policy.** Without `previous_priorities` the same priority is picked \
     again.\n2. **The route cache.** It's cleared once, when the body has been read.\n3. **The budget.** `num_retries: 1` means two \
     attempts, not three.\n\nWhich version do you run?",
    "```rust\nfn main() -> Result<(), Box<dyn Error>> {\n    let text = std::fs::read_to_string(\"config.yaml\")?;\n    for (number, \
     line) in text.lines().enumerate() {\n        if line.contains(\"\\t\") {\n            println!(\"{number}:\\t{line}\");\n        \
     }\n    }\n    Ok(())\n}\n```",
    "Yes.",
    "Не могли бы вы объяснить, почему запрос попадает в ту же группу, что и раньше? В журнале написано, что узлов нет, хотя оба отвечают.",
    "请解释一下为什么第二次重试会发送到与第一次相同的组。日志显示没有可用的上游服务器，但是当我手动请求时，这两个端点都会正常响应。谢谢！",
    "Não sei se é grave, mas às vezes a resposta vem em inglês 😀 – même si la question était posée en français, à l’évidence…",
];

fn chat(texts: &[&str], turns: usize) -> Value {
    let message = |turn: usize| {
        let role = if turn.is_multiple_of(2) { "user" } else { "assistant" };
        json!({"role": role, "content": format!("{} {}", texts[turn % texts.len()], texts[turn * 7 % texts.len()])})
    };
    json!({"temperature": 0.7, "stream": true, "messages": (0..turns).map(message).collect::<Vec<_>>()})
}

fn image(bytes: usize) -> Value {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut state = 88_172_645_463_325_252_u64;
    let letters = (0..bytes).map(|_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        char::from(ALPHABET[(state % 64) as usize])
    });
    let url = format!("data:image/png;base64,{}", letters.collect::<String>());
    json!({"messages": [{"role": "user", "content": [
        {"type": "text", "text": "What is on this picture?"},
        {"type": "image_url", "image_url": {"url": url, "detail": "high"}},
    ]}]})
}

/// Functions as agents carry them with every request: short keys, short strings, nested schemas.
fn tools(count: usize) -> Value {
    let tool = |index: usize| {
        json!({"type": "function", "function": {
            "name": format!("search_tickets_{index}"),
            "description": "Finds tickets by text, state and owner. Returns at most `limit` of them, newest first.",
            "strict": true,
            "parameters": {"type": "object", "additionalProperties": false, "required": ["query", "filter", "limit"], "properties": {
                "query": {"type": "string", "description": "What to look for", "minLength": 1, "maxLength": 200},
                "limit": {"type": "integer", "minimum": 1, "maximum": 100, "default": 20},
                "ratio": {"type": "number", "exclusiveMinimum": 0.5, "maximum": 1.75e3},
                "filter": {"type": ["object", "null"], "properties": {
                    "state": {"type": "string", "enum": ["open", "closed", "waiting", "all"]},
                    "owner": {"anyOf": [{"type": "string", "format": "email"}, {"type": "null"}]},
                    "labels": {"type": "array", "items": {"type": "string"}, "maxItems": 10, "uniqueItems": true},
                    "range": {"type": "object", "properties": {
                        "from": {"type": "string", "format": "date-time"}, "to": {"type": "string", "format": "date-time"},
                    }, "required": ["from"]},
                }},
            }},
        }})
    };
    json!({"tools": (0..count).map(tool).collect::<Vec<_>>()})
}

fn nested(count: usize) -> Value {
    let tree =
        (0..60).fold(json!(1), |inner, level| if level % 2 == 0 { json!([inner, {}]) } else { json!({"n": inner, "m": []}) });
    json!({"input": vec![tree; count]})
}

fn numbers(count: u32) -> Value {
    json!({"embedding": (0..count).map(|index| f64::from(index * 7919 % 10_007) / 10_007.0 - 0.5).collect::<Vec<_>>(),
           "input": (0..count).map(|index| index * 7919 % 100_003).collect::<Vec<_>>()})
}

fn with_model(body: &Value, model: &str, pretty: bool) -> String {
    let text = if pretty { to_string_pretty(body) } else { to_string(body) }.expect("a value is JSON");
    let open = text.trim_end().strip_suffix('}').expect("a body is an object").trim_end();
    format!(r#"{open},"model":"{model}"}}"#)
}

/// As clients write it that escape all but ASCII.
fn ascii(text: &str) -> String {
    let mut out = String::new();
    for character in text.chars() {
        if character.is_ascii() {
            out.push(character);
        } else {
            character.encode_utf16(&mut [0; 2]).iter().for_each(|unit| out.push_str(&format!("\\u{unit:04x}")));
        }
    }
    out
}
