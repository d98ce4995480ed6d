//! Sizes of values from outside, without writing them out.

use serde_json::Value;

/// About so many bytes of JSON.
pub(crate) fn weigh(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) => 5,
        Value::Number(_) => 8,
        Value::String(text) => text.len() + 2,
        Value::Array(items) => 2 + items.iter().map(|item| weigh(item) + 1).sum::<usize>(),
        Value::Object(fields) => {
            2 + fields.iter().map(|(key, value)| key.len() + 4 + weigh(value)).sum::<usize>()
        }
    }
}

/// True if JSON has more values than this, before it is read: a value takes many times its bytes in memory.
pub(crate) fn has_more_values(json: &[u8], most: usize) -> bool {
    let (mut values, mut is_text, mut is_escaped) = (1, false, false);
    for byte in json {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_text => is_escaped = true,
            b'"' => is_text = !is_text,
            b',' | b'[' | b'{' | b':' if !is_text => {
                values += 1;
                if values > most {
                    return true;
                }
            }
            _ => {}
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_value_weighs_about_what_it_takes() {
        for value in
            [json!({"a": [1, "two", null, {"b": true}]}), json!("x".repeat(100)), json!([])]
        {
            let bytes = value.to_string().len();
            assert!((bytes..=bytes * 2 + 20).contains(&weigh(&value)), "{value}");
        }
    }

    #[test]
    fn values_are_counted_outside_of_texts_alone() {
        let text = br#"{"a": "[,,,{\",{{{{{{", "b": [1, 2]}"#;
        assert!(!has_more_values(text, 8) && has_more_values(text, 4));
        assert!(has_more_values(b"[[[[[[", 5));
    }
}
