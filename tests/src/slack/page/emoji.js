// Emoji by the names that Slack gives them: those that roles and people commonly use.

const TABLE = `
+1 👍|thumbsup 👍|-1 👎|thumbsdown 👎|eyes 👀|white_check_mark ✅|heavy_check_mark ✔️|x ❌|warning ⚠️
tada 🎉|rocket 🚀|heart ❤️|fire 🔥|100 💯|pray 🙏|clap 👏|wave 👋|raised_hands 🙌|ok_hand 👌|muscle 💪
point_right 👉|point_up ☝️|point_down 👇|thinking_face 🤔|smile 😄|slightly_smiling_face 🙂|joy 😂
sweat_smile 😅|cry 😢|confused 😕|sunglasses 😎|wink 😉|grinning 😀|laughing 😆|blush 😊|sob 😭|scream 😱
robot_face 🤖|brain 🧠|bulb 💡|memo 📝|pencil ✏️|pencil2 ✏️|hammer 🔨|wrench 🔧|hammer_and_wrench 🛠️
tools 🛠️|gear ⚙️|mag 🔍|mag_right 🔎|microscope 🔬|telescope 🔭|compass 🧭|eyeglasses 👓|scales ⚖️|art 🎨
mortar_board 🎓|books 📚|book 📖|bookmark 🔖|clipboard 📋|calendar 📅|chart_with_upwards_trend 📈|bar_chart 📊
link 🔗|lock 🔒|unlock 🔓|key 🔑|package 📦|file_folder 📁|page_facing_up 📄|inbox_tray 📥|outbox_tray 📤
bug 🐛|ant 🐜|snail 🐌|turtle 🐢|whale 🐳|crab 🦀|snake 🐍|coffee ☕|pizza 🍕|beer 🍺|star ⭐|sparkles ✨|zap ⚡
hourglass ⌛|hourglass_flowing_sand ⏳|stopwatch ⏱️|alarm_clock ⏰|bell 🔔|no_bell 🔕|construction 🚧
rotating_light 🚨|stop_sign 🛑|octagonal_sign 🛑|no_entry ⛔|no_entry_sign 🚫|question ❓|exclamation ❗
information_source ℹ️|speech_balloon 💬|thought_balloon 💭|moneybag 💰|dollar 💵|money_with_wings 💸
red_circle 🔴|large_green_circle 🟢|large_yellow_circle 🟡|large_blue_circle 🔵|white_circle ⚪|black_circle ⚫
arrow_right ➡️|arrow_left ⬅️|arrow_up ⬆️|arrow_down ⬇️|leftwards_arrow_with_hook ↩️|repeat 🔁|recycle ♻️
arrows_counterclockwise 🔄|heavy_plus_sign ➕|heavy_minus_sign ➖|twisted_rightwards_arrows 🔀|label 🏷️
broom 🧹|wastebasket 🗑️|shield 🛡️|test_tube 🧪|checkered_flag 🏁|triangular_flag_on_post 🚩|crystal_ball 🔮
sleeping 😴|zzz 💤|ship 🚢|shipit 🐿️|ghost 👻|skull 💀|boom 💥|dizzy 💫|globe_with_meridians 🌐|email 📧`;

const BY_NAME = new Map(
  TABLE.trim().split(/[|\n]/).map((entry) => {
    const gap = entry.indexOf(' ');
    return [entry.slice(0, gap), entry.slice(gap + 1)];
  }),
);

/** Offered to react with. */
export const OFFERED = ['+1', 'eyes', 'white_check_mark', 'tada', 'heart', 'thinking_face', '-1', 'octagonal_sign'];

/** The character of an emoji's name (with or without colons), or nothing. */
export function emoji(name) {
  return BY_NAME.get(name.replace(/^:|:$/g, ''));
}
