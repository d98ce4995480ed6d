use codebutler_crds::NanoUsd;

use super::*;

const PNG: &[u8] = b"\x89PNG\r\n\x1a\nrest";

fn wanted() -> DrawImages {
    DrawImages {
        key: "run.1.0".to_owned(),
        prompt: "A fox".to_owned(),
        count: 2,
        ..DrawImages::default()
    }
}

fn refusal(change: impl FnOnce(&mut DrawImages)) -> String {
    let mut wanted = wanted();
    change(&mut wanted);
    read_order(&wanted).unwrap_err().message
}

#[test]
fn what_can_not_be_made_is_refused_before_anybody_is_asked() {
    let png = || STANDARD.encode(PNG);
    assert!(read_order(&wanted()).is_ok());
    assert!(refusal(|w| w.count = 0).contains("`count` is 1 to 4"));
    assert!(refusal(|w| w.count = 5).contains("`count` is 1 to 4"));
    assert!(refusal(|w| w.prompt = "  ".to_owned()).contains("`prompt` has 1 to 4000"));
    assert!(refusal(|w| w.prompt = "x".repeat(4001)).contains("`prompt` has 1 to 4000"));
    assert!(refusal(|w| w.key = "a b".to_owned()).contains("`key`"));
    assert!(refusal(|w| w.mask = Some(png())).contains("name the image"));
    assert!(refusal(|w| w.sources = vec![png(); 5]).contains("at most 4"));
    let lies = STANDARD.encode("<svg onload=x>");
    assert!(refusal(|w| w.sources = vec![lies]).contains("whatever its name says"));
    let large = STANDARD.encode([PNG, &vec![0; MAX_SOURCE]].concat());
    assert!(refusal(|w| w.sources = vec![large]).contains("at most 4 MiB"));
    let jpeg = STANDARD.encode(b"\xff\xd8\xff\xe0rest");
    let masked = refusal(|w| (w.sources, w.mask) = (vec![png()], Some(jpeg)));
    assert!(masked.contains("mask has to be a PNG"), "{masked}");
}

#[test]
fn a_mask_is_transparent_somewhere_and_as_large_as_its_image() {
    let png = |side: u8, colors: u8| {
        let head = b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR\0\0\0";
        STANDARD.encode([&head[..], &[side], b"\0\0\0\x01\x08", &[colors], b"\0\0\0IDAT"].concat())
    };
    let masked = |source: String, mask: String| {
        let (sources, mask) = (vec![source], Some(mask));
        read_order(&DrawImages { sources, mask, ..wanted() }).map(drop)
    };
    assert!(masked(png(2, 2), png(2, 6)).is_ok());
    let opaque = masked(png(2, 2), png(2, 2)).unwrap_err().message;
    assert!(opaque.contains("transparent where the image is changed"), "{opaque}");
    let small = masked(png(2, 2), png(1, 6)).unwrap_err().message;
    assert!(small.contains("as wide and as high as the first image"), "{small}");
    // Of a JPEG the sides stand elsewhere.
    assert!(masked(STANDARD.encode(b"\xff\xd8\xff\xe0rest"), png(1, 6)).is_ok());
}

#[test]
fn people_are_shown_description_count_and_price() {
    let order = read_order(&DrawImages { transparent: true, ..wanted() }).unwrap();
    let planned = PlannedDrawing::at("openai/brush", NanoUsd(84_480_000));
    let (summary, detail) = show_order(&order, &planned);
    assert_eq!(summary, "Make 2 images for about $0.08");
    assert!(detail.starts_with(
        "2 images, square, medium quality, without a background, about $0.08, by openai/brush.\n"
    ));
    assert!(detail.ends_with("\n\nA fox"), "{detail}");
}

#[test]
fn a_description_addresses_nobody() {
    let mut order = read_order(&wanted()).unwrap();
    order.prompt = format!("a `fox`\n@codebutler.coder {}", "x".repeat(300));
    let made = MadeImages { images: vec![PNG.into(); 2], cost: NanoUsd(4_000_000), failure: None };
    let caption = write_caption(&order, &made, Some("2 of 3 were made: why"));
    assert!(
        caption.starts_with("2 images (square, medium quality, <$0.01): a fox codebutler.coder x"),
        "{caption}"
    );
    assert!(caption.contains("…\n2 of 3 were made: why\nSay which one"), "{caption}");
    assert!(!caption.contains('@') && !caption.contains('`'));
}

#[test]
fn an_image_goes_to_a_file_of_the_repository() {
    assert_eq!(check_path("./public/logo.png").unwrap(), "public/logo.png");
    for path in ["../x.png", "/etc/x.png", "a//b.png", "a/../b.png", "", "a\\b.png"] {
        assert!(check_path(path).unwrap_err().message.contains("relative to its root"), "{path}");
    }
    for path in ["src/main.rs", "logo.svg", "x"] {
        assert!(check_path(path).unwrap_err().message.contains("ends in .png"), "{path}");
    }
}
