//! Tool names of other agents: Claude Code, Codex, opencode, `OpenHands`, Cline, Cursor, Gemini CLI.

use super::bare_name;

/// The tool that is meant, and the name that was used, without case and punctuation.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct MeantTool {
    pub tool: &'static str,
    /// The name that the model used for it.
    pub by: String,
}

/// Prefixes that models put before a tool's name.
const PREFIXES: [&str; 5] = ["functions", "function", "tools", "default_api", "tool"];

/// Own name of a tool, and its names elsewhere.
const NAMES: [(&str, &[&str]); 40] = [
    ("Read", &["readfile", "view", "viewfile", "openfile", "cat", "readtextfile", "fileread"]),
    ("Write", &["writefile", "createfile", "writetofile", "savefile", "filewrite", "newfile"]),
    (
        "Edit",
        &[
            "editfile",
            "multiedit",
            "strreplace",
            "searchreplace",
            "replace",
            "fileedit",
            "strreplaceeditor",
            "strreplacebasededittool",
            "replaceinfile",
            "applypatch",
            "patch",
            "updatefile",
            "fileeditor",
        ],
    ),
    (
        "Bash",
        &[
            "shell",
            "exec",
            "execcommand",
            "execbash",
            "executebash",
            "executecommand",
            "runcommand",
            "runbash",
            "runterminalcmd",
            "runterminalcommand",
            "runshellcommand",
            "runinterminal",
            "shellcommand",
            "localshell",
            "containerexec",
            "terminal",
            "bashoutput",
            "taskoutput",
            "killshell",
            "killbash",
            "taskstop",
            "writestdin",
            "sh",
            "shellexec",
        ],
    ),
    (
        "Grep",
        &[
            "grepsearch",
            "searchfilecontent",
            "ripgrep",
            "rg",
            "searchfiles",
            "grepfiles",
            "searchcode",
        ],
    ),
    (
        "Glob",
        &[
            "globsearch",
            "globfiles",
            "filesearch",
            "findfiles",
            "findbyname",
            "find",
            "listfiles",
            "listdir",
            "listdirectory",
            "ls",
            "list",
            "folderls",
        ],
    ),
    ("GitLog", &["log"]),
    ("GitDiff", &["diff"]),
    ("GitShow", &["show", "showcommit"]),
    ("GitBlame", &["blame"]),
    ("GitCommit", &["commit"]),
    ("GitUpdate", &["update", "gitpull", "pull", "gitmerge", "updatebranch"]),
    ("GitPush", &["push"]),
    ("ReadMemory", &["memory", "memoryread"]),
    (
        "Todo",
        &[
            "todowrite",
            "updateplan",
            "todolist",
            "writetodos",
            "updatetodolist",
            "managetodolist",
            "tasktracker",
            "todos",
            "plan",
        ],
    ),
    (
        "SaveAttachment",
        &["saveattachments", "downloadattachment", "downloadfile", "savefileattachment"],
    ),
    (
        "WebFetch",
        &["fetch", "fetchurl", "readurl", "urlfetch", "webread", "browse", "fetchwebpage"],
    ),
    ("WebSearch", &["googlewebsearch", "searchweb", "googlesearch"]),
    (
        "Screenshot",
        &["takescreenshot", "browserscreenshot", "browsertakescreenshot", "capturepage"],
    ),
    (
        "GenerateImage",
        &["imagegeneration", "generateimages", "createimage", "makeimage", "drawimage", "imagegen"],
    ),
    ("EditImage", &["imageedit", "changeimage", "modifyimage"]),
    ("KeepImage", &["useimage", "chooseimage", "commitimage", "saveimage"]),
    ("GHCreatePR", &["createpullrequest", "createpr", "pullrequest"]),
    ("GHStatus", &["prstatus", "pullrequeststatus"]),
    ("GHComment", &["prcomment"]),
    ("GHReview", &["prreview", "submitreview"]),
    ("GHPull", &["readpr", "viewpr", "getpr", "getpullrequest", "viewpullrequest", "listprs"]),
    ("GHChangeIssue", &["closeissue", "assignissue", "updateissue", "editissue", "addsubissue"]),
    ("GHIssues", &["issues", "getissue", "listissues"]),
    ("GHOpenIssues", &["openissues", "createissues", "openitemissues"]),
    ("KeepResearch", &["research", "saveresearch", "writeresearch"]),
    ("SplitRequest", &["split", "splittask", "decompose"]),
    ("ListThreads", &["threads"]),
    ("SendMessage", &["message", "postmessage", "sendmessagetouser", "say"]),
    ("CloseThread", &["close"]),
    ("ReadConversation", &["conversation", "readmessages", "conversationhistory"]),
    ("FindTool", &["toolsearch", "searchtools", "findtools", "toolsearchtool"]),
    ("ListResources", &["listmcpresources", "listmcpresourcestool"]),
    ("ReadResource", &["readmcpresource", "readmcpresourcetool", "fetchmcpresource"]),
    ("UsePrompt", &["getprompt", "useprompts"]),
];

/// Finds the tool that a name means, among those that exist.
pub(super) fn resolve_name(name: &str, has: impl Fn(&str) -> bool) -> Option<MeantTool> {
    let by = bare_name(strip_name(name.trim()));
    let own = |known: &str| bare_name(known) == by;
    let tool = NAMES.iter().find(|(tool, _)| own(tool));
    let tool = tool.or_else(|| NAMES.iter().find(|(_, others)| others.contains(&by.as_str())));
    tool.map(|(tool, _)| *tool).filter(|tool| has(tool)).map(|tool| MeantTool { tool, by })
}

/// Strips `functions.` before a name and `:0` after it.
pub(super) fn strip_name(name: &str) -> &str {
    let bare = PREFIXES.iter().find_map(|prefix| {
        let head = name.get(..prefix.len())?;
        let rest = head.eq_ignore_ascii_case(prefix).then(|| &name[prefix.len()..])?;
        rest.strip_prefix(['.', ':', '/'])
    });
    let name = bare.unwrap_or(name);
    match name.rsplit_once(':') {
        Some((name, number)) if number.bytes().all(|b| b.is_ascii_digit()) => name,
        _ => name,
    }
}
