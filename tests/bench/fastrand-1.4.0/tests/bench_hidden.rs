use fastrand::Rng;

macro_rules! stays_inside {
    ($name:ident, $method:ident, $low:expr, $high:expr) => {
        #[test]
        fn $name() {
            let rng = Rng::with_seed(42);
            let (mut least, mut most) = ($high, $low);
            for _ in 0..20_000 {
                let n = rng.$method($low..$high);
                assert!(n >= $low && n < $high, "{} is outside", n);
                least = least.min(n);
                most = most.max(n);
            }
            // All of it is used.
            let eighth = $high / 8 - $low / 8;
            assert!(least < $low + eighth && most > $high - 1 - eighth, "{} to {}", least, most);
        }
    };
}

stays_inside!(wide_i8, i8, -100i8, 100i8);
stays_inside!(wide_i16, i16, -30_000i16, 30_000i16);
stays_inside!(wide_i32, i32, -2_000_000_000i32, 2_000_000_000i32);
stays_inside!(wide_i64, i64, -9_000_000_000_000_000_000i64, 9_000_000_000_000_000_000i64);
stays_inside!(wide_isize, isize, -9_000_000_000_000_000_000isize, 9_000_000_000_000_000_000isize);
stays_inside!(narrow_i8, i8, -50i8, 50i8);
stays_inside!(narrow_i32, i32, -1000i32, 1000i32);
stays_inside!(wide_u8, u8, 1u8, 250u8);
stays_inside!(wide_u32, u32, 1u32, 4_000_000_000u32);

#[test]
fn one_value() {
    assert_eq!(Rng::with_seed(3).i16(-7..=-7), -7);
}

#[test]
fn the_whole_type() {
    let rng = Rng::with_seed(3);
    let negative = (0..1000).filter(|_| rng.i8(..) < 0).count();
    assert!(negative > 300 && negative < 700, "{}", negative);
}
