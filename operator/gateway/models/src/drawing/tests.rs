use super::super::facts::KnownModelFacts;
use super::super::params::SentParams;
use super::*;

const PNG: &[u8] = b"\x89PNG\r\n\x1a\nrest";

fn order() -> DrawingOrder {
    DrawingOrder {
        prompt: "A fox".to_owned(),
        count: 2,
        size: ImageSize::Landscape,
        quality: ImageQuality::High,
        transparent: true,
        ..DrawingOrder::default()
    }
}

fn sent() -> SentImage {
    SentImage::new(Bytes::from_static(PNG)).unwrap()
}

/// Path, type and body of each call.
fn asked(dialect: ApiDialect, order: &DrawingOrder) -> Vec<(String, String, Bytes)> {
    let routing = json!({"requireParameters": true, "dataCollection": "deny", "only": ["a"]});
    asked_of(&KnownModelFacts::default(), &routing, (dialect, order))
}

/// The same, of a model with these facts and with the role's routing.
fn asked_of(
    facts: &KnownModelFacts,
    routing: &Value,
    (dialect, order): (ApiDialect, &DrawingOrder),
) -> Vec<(String, String, Bytes)> {
    let role = json!({"default": "m/x", "routing": routing});
    let role: RoleModel = serde_json::from_value(role).unwrap();
    let shape = RequestShape {
        dialect,
        id: "brush",
        facts,
        role: &role,
        session: "s",
        affordable: None,
        collects: false,
        params: SentParams::default(),
    };
    let jobs = DrawingJob::split("p/brush", dialect, order);
    let asked = jobs.iter().map(|job| {
        let (kind, body) = job.body(&shape);
        (job.path(&shape).join("/"), kind.to_str().unwrap().to_owned(), body)
    });
    asked.collect()
}

#[test]
fn openai_is_asked_for_all_of_them_at_once() {
    let calls = asked(ApiDialect::OpenAi, &order());
    let [(path, kind, body)] = &calls[..] else { panic!("{calls:?}") };
    assert_eq!((path.as_str(), kind.as_str()), ("images/generations", "application/json"));
    let body: Value = serde_json::from_slice(body).unwrap();
    let expected = json!({"model": "brush", "prompt": "A fox", "n": 2, "size": "1536x1024", "quality": "high",
        "background": "transparent", "output_format": "png"});
    assert_eq!(body, expected);
    let plain = asked(ApiDialect::Plain, &DrawingOrder { transparent: false, ..order() });
    let body: Value = serde_json::from_slice(&plain[0].2).unwrap();
    assert_eq!(body.as_object().unwrap().len(), 5, "{body}");
}

#[test]
fn an_edit_is_a_form_with_its_sources_and_mask() {
    let one = DrawingOrder { sources: vec![sent()], area: Some("the tail.".to_owned()), ..order() };
    let calls = asked(ApiDialect::OpenAi, &one);
    let (path, kind, body) = &calls[0];
    assert!(path == "images/edits" && kind.starts_with("multipart/form-data; boundary="), "{kind}");
    let text = String::from_utf8_lossy(body);
    assert!(
        text.contains("name=\"image\"; filename=\"0.png\"\r\ncontent-type: image/png"),
        "{text}"
    );
    assert!(text.contains("Change only this part: the tail. Leave everything else"), "{text}");
    assert!(!text.contains("name=\"mask\""), "{text}");
    let two = DrawingOrder { sources: vec![sent(), sent()], mask: Some(sent()), ..order() };
    let text = String::from_utf8_lossy(&asked(ApiDialect::OpenAi, &two)[0].2).into_owned();
    assert_eq!(
        (text.matches("name=\"image[]\"").count(), text.matches("name=\"mask\"").count()),
        (2, 1)
    );
}

#[test]
fn openrouter_is_asked_for_each_in_a_chat() {
    let wanted = DrawingOrder { sources: vec![sent()], mask: Some(sent()), ..order() };
    let calls = asked(ApiDialect::OpenRouter, &wanted);
    assert_eq!(calls.len(), 2);
    let (path, _, body) = &calls[1];
    assert_eq!(path, "chat/completions");
    let body: Value = serde_json::from_slice(body).unwrap();
    assert_eq!(body["modalities"], json!(["image", "text"]));
    let config = json!({"aspect_ratio": "3:2", "quality": "high", "background": "transparent", "output_format": "png"});
    assert_eq!(body["image_config"], config);
    assert_eq!(body["provider"], json!({"data_collection": "deny"}), "of other models");
    let content = body["messages"][0]["content"].as_array().unwrap();
    assert_eq!(content.len(), 3);
    let words = content[0]["text"].as_str().unwrap();
    assert!(
        words.contains("background is transparent") && words.contains("last image is a mask"),
        "{words}"
    );
    assert!(content[2]["image_url"]["url"].as_str().unwrap().starts_with("data:image/png;base64,"));
}

#[test]
fn a_model_that_writes_no_words_is_asked_by_openrouters_own_images_api() {
    let facts = KnownModelFacts { draws_only: true, ..KnownModelFacts::default() };
    let ask = |routing: Value, order: &DrawingOrder| {
        asked_of(&facts, &routing, (ApiDialect::OpenRouter, order))
    };
    let wanted =
        DrawingOrder { sources: vec![sent()], area: Some("the tail".to_owned()), ..order() };
    let calls = ask(json!({"only": ["a"]}), &wanted);
    assert_eq!(calls.len(), 2, "one image each");
    let (path, kind, body) = &calls[0];
    assert_eq!((path.as_str(), kind.as_str()), ("images", "application/json"));
    let mut body: Value = serde_json::from_slice(body).unwrap();
    let sources = body["input_references"].take();
    assert_eq!(sources.as_array().map(Vec::len), Some(1));
    assert!(sources[0]["image_url"]["url"].as_str().unwrap().starts_with("data:image/png;base64,"));
    let words = "A fox\n\nChange only this part: the tail. Leave everything else exactly as it is.";
    let expected = json!({"model": "brush", "prompt": words, "aspect_ratio": "3:2", "quality": "high",
        "background": "transparent", "output_format": "png", "input_references": null});
    assert_eq!(body, expected);
    // It knows neither a mask nor a policy on data: a chat has both.
    let masked = DrawingOrder { mask: Some(sent()), ..wanted.clone() };
    for calls in [ask(json!({}), &masked), ask(json!({"zdr": true}), &wanted)] {
        assert_eq!(calls[0].0, "chat/completions");
    }
}

#[test]
fn an_edited_image_keeps_its_shape_as_well_as_the_model_can() {
    let of = |sides| DrawingOrder { sides: Some(sides), transparent: false, ..order() };
    for (sides, ratio) in [
        ((1_920, 1_080), "16:9"),
        ((800, 600), "4:3"),
        ((600, 601), "1:1"),
        ((1_000, 3_000), "9:16"),
        ((5_000, 1_000), "21:9"),
        ((0, 7), "1:1"),
    ] {
        assert_eq!(aspect_ratio(&of(sides)), ratio, "{sides:?}");
    }
    assert_eq!(aspect_ratio(&order()), "3:2");
    let one = of((1_920, 1_080));
    assert_eq!(pixel_size(&one, "gpt-image-1"), "1536x1024");
    assert_eq!(pixel_size(&one, "openai/gpt-image-2"), "1680x944");
    assert_eq!(pixel_size(&of((1, 9)), "gpt-image-2"), "736x2112");
    assert_eq!(pixel_size(&order(), "gpt-image-2"), "1536x1024", "as it was asked for");
}

#[test]
fn an_image_is_what_its_bytes_say() {
    let read = |answer: Value| read_images(answer.to_string().as_bytes(), 2);
    let png = STANDARD.encode(PNG);
    let listed = json!({"data": [{"b64_json": png}, {"b64_json": png}, {"b64_json": png}]});
    assert_eq!(read(listed).unwrap().len(), 2, "no more than was wanted");
    let url = format!("data:image/jpeg;base64,{png}");
    let shown = json!({"choices": [{"message": {"content": "Here.", "images": [{"image_url": {"url": url}}]}}]});
    assert_eq!(read(shown).unwrap(), [Bytes::from_static(PNG)]);
    let lies = STANDARD.encode("<svg onload=x>");
    assert_eq!(read(json!({"data": [{"b64_json": lies}]})), Err(DrawnError::NoImage));
    assert_eq!(
        read(json!({"data": [{"url": "https://a.example/x.png"}]})),
        Err(DrawnError::Address)
    );
    let refusal = json!({"choices": [{"message": {"content": "I can't draw that."}}]});
    assert_eq!(read(refusal), Err(DrawnError::Said("I can't draw that.".to_owned())));
    assert_eq!(read(json!({"data": []})), Err(DrawnError::Nothing));
    let huge = json!({"data": [{"b64_json": "A".repeat(MAX_IMAGE / 3 * 4 + 8)}]});
    assert!(matches!(read(huge), Err(DrawnError::TooLarge(_))));
}
