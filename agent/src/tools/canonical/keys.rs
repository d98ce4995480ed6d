//! Parameter names of other agents, without case and punctuation.

/// A parameter, and its synonyms.
type Others = &'static [(&'static str, &'static [&'static str])];

const PATH: (&str, &[&str]) = (
    "path",
    &[
        "filepath",
        "filename",
        "file",
        "absolutepath",
        "targetfile",
        "targetpath",
        "notebookpath",
        "relativepath",
        "relativeworkspacepath",
    ],
);
const FOLDER: (&str, &[&str]) = (
    "path",
    &[
        "dir",
        "directory",
        "folder",
        "dirpath",
        "directorypath",
        "targetdirectory",
        "searchpath",
        "searchdirectory",
        "filepath",
        "absolutepath",
        "root",
        "relativeworkspacepath",
        "paths",
    ],
);

/// Synonyms of parameters at a place: a tool, or a list in its arguments.
pub(super) fn other_keys(place: &str) -> Others {
    match place {
        "Read" => &[
            PATH,
            ("offset", &["startline", "start", "linestart", "from", "startlineoneindexed"]),
            ("limit", &["lines", "numlines", "maxlines", "count", "linecount"]),
        ],
        "Write" => &[
            PATH,
            ("content", &["contents", "text", "filetext", "filecontent", "newcontent", "data"]),
        ],
        "Edit" => {
            &[PATH, ("edits", &["replacements", "changes"]), ("patch", &["patchtext", "input"])]
        }
        "Edit.edits" => &[
            ("old", &["oldstring", "oldstr", "oldtext", "search", "find", "from", "oldcode"]),
            ("new", &["newstring", "newstr", "newtext", "replace", "replacement", "to", "newcode"]),
            ("all", &["replaceall", "global", "allowmultiple"]),
        ],
        "Bash" => &[
            ("command", &["cmd", "commandline", "script", "shellcommand", "bashcommand"]),
            ("workdir", &["cwd", "directory", "dir", "workingdirectory", "workingdir", "dirpath"]),
            ("timeout", &["timeoutseconds", "timeoutsec", "timeouts"]),
            ("background", &["runinbackground", "isbackground", "detach", "detached"]),
            ("job", &["bashid", "shellid", "taskid", "sessionid", "jobid", "processid"]),
            ("wait", &["waitseconds", "waitfor"]),
        ],
        "Grep" => &[
            FOLDER,
            ("pattern", &["query", "regex", "regexp", "search", "searchpattern", "searchterm"]),
            ("glob", &["include", "includepattern", "filepattern", "fileglob", "includeglob"]),
            ("type", &["filetype"]),
            ("mode", &["outputmode"]),
            ("ignoreCase", &["i", "caseinsensitive"]),
            ("context", &["c", "contextlines"]),
            ("before", &["b", "beforecontext"]),
            ("after", &["a", "aftercontext"]),
            ("limit", &["headlimit", "maxresults", "maxcount", "maxmatches"]),
        ],
        "Glob" => &[
            FOLDER,
            ("pattern", &["glob", "globpattern", "query", "filepattern", "name", "searchpattern"]),
        ],
        _ => more_keys(place),
    }
}

fn more_keys(place: &str) -> Others {
    match place {
        "GitLog" => &[
            PATH,
            ("limit", &["count", "n", "maxcount", "number"]),
            ("search", &["s", "g", "pickaxe", "query"]),
            ("patch", &["p", "diff", "showpatch"]),
            ("commit", &["ref", "revision", "rev", "branch"]),
            ("since", &["after"]),
        ],
        "GitDiff" => &[PATH, ("base", &["commit", "ref", "revision", "from", "against", "target"])],
        "GitShow" => &[PATH, ("commit", &["ref", "revision", "rev", "sha", "hash", "id"])],
        "GitBlame" => &[
            PATH,
            ("from", &["startline", "start", "offset"]),
            ("to", &["endline", "end"]),
            ("commit", &["ref", "revision", "rev", "sha"]),
        ],
        "GitCommit" => &[("message", &["msg", "m"]), ("paths", &["files", "path", "filepaths"])],
        "ReadMemory" => &[("file", &["path", "filepath", "filename", "name"])],
        "Todo" => &[("items", &["todos", "plan", "tasks", "tasklist", "todolist"])],
        "Todo.items" => &[
            ("text", &["content", "step", "title", "task", "description", "name"]),
            ("state", &["status"]),
        ],
        "SaveAttachment" => &[
            ("file", &["id", "attachment", "fileid"]),
            ("path", &["filepath", "filename", "to", "destination", "target"]),
            ("replace", &["overwrite", "force"]),
        ],
        "Screenshot" => &[
            ("url", &["address", "page", "uri", "link"]),
            ("moment", &["when", "shows", "stage"]),
            ("name", &["label", "prefix", "filename"]),
            ("sizes", &["size", "viewports", "viewport", "devices"]),
            ("schemes", &["scheme", "colorschemes", "themes", "theme"]),
        ],
        "GenerateImage" => &[
            ("prompt", &["description", "text"]),
            ("count", &["n", "number", "variants"]),
            ("transparent", &["transparentbackground"]),
        ],
        "EditImage" => &[
            ("images", &["image", "path", "paths", "source", "sources"]),
            ("prompt", &["instruction", "description", "text"]),
            ("count", &["n", "number", "variants"]),
            ("transparent", &["transparentbackground"]),
        ],
        "KeepImage" => &[
            ("image", &["from", "file", "source"]),
            ("path", &["filepath", "to", "destination", "target"]),
        ],
        "WebFetch" => &[("url", &["uri", "link", "href"])],
        "WebSearch" => &[("query", &["q", "searchquery", "searchterm", "search"])],
        "GHCreatePR" => &[("body", &["description", "summary"])],
        "GHComment" | "GHReview.comments" => &[
            ("file", &["path", "filepath", "filename"]),
            ("line", &["linenumber"]),
            ("body", &["comment", "text", "message"]),
        ],
        "GHPull" => &[
            ("number", &["pull", "pr", "pullnumber", "prnumber", "pullrequest", "id"]),
            ("link", &["url", "uri", "href"]),
            ("file", &["path", "filepath", "filename"]),
            ("part", &["view", "what", "section"]),
        ],
        "GHChangeIssue" => &[
            ("number", &["issue", "issuenumber", "id", "parent"]),
            ("close", &["reason", "statereason"]),
            ("assign", &["assignees", "assignee"]),
            ("subIssue", &["child", "subissuenumber"]),
        ],
        "GHReview" => &[("body", &["summary", "comment", "text", "message", "review"])],
        "GHIssues" => &[("number", &["issue", "issuenumber", "id"]), ("label", &["labels"])],
        "SendMessage" => &[("message", &["text", "content", "body"])],
        "CloseThread" => &[("summary", &["message", "result", "description"])],
        _ => &[],
    }
}

/// Synonym of one of a place's few allowed values.
pub(super) fn value_synonym(place: &str, bare: &str) -> Option<&'static str> {
    Some(match (place, bare) {
        ("Todo.items.state", "pending" | "todo" | "notstarted" | "new") => "open",
        ("Todo.items.state", "inprogress" | "active" | "started" | "current") => "doing",
        ("Todo.items.state", "completed" | "complete" | "finished" | "cancelled" | "canceled") => {
            "done"
        }
        ("Grep.mode", "fileswithmatches" | "filenames" | "paths") => "files",
        ("Grep.mode", "lines" | "matches") => "content",
        _ => return None,
    })
}
