//! Credentials that are known by their form: how each begins (any case: the form decides), and the
//! expression that it has to match from there. Repetitions are bounded, so that a long text costs
//! no more than its length; what follows in the same word is taken along by the caller.

/// A kind of credential that is known by its form.
pub(crate) struct CredentialKind {
    /// Name of the kind in `[redacted:<name>]`.
    pub name: &'static str,
    /// First characters of such a credential, which are its anchor.
    pub begins: &'static str,
    /// Regular expression of its whole form.
    pub form: &'static str,
    /// True if it never begins in the middle of a word.
    pub bounded: bool,
}

const fn provider_token(
    name: &'static str,
    begins: &'static str,
    form: &'static str,
) -> CredentialKind {
    CredentialKind { name, begins, form, bounded: true }
}

const fn provider_anywhere(
    name: &'static str,
    begins: &'static str,
    form: &'static str,
) -> CredentialKind {
    CredentialKind { name, begins, form, bounded: false }
}

/// Beginning of a private key. The form is its first line; the rest is found by [`private_key`].
pub(crate) const PEM: &str = "-----begin ";

/// End of a private key whose first line ends at `at`: behind its last line, or where what follows can't be a part of
/// it.
pub(crate) fn private_key(text: &str, at: usize) -> usize {
    let body = |b: &u8| b.is_ascii_alphanumeric() || b"+/=:,. \t\r\n\\>|-\"".contains(b);
    let bytes = &text.as_bytes()[at..];
    let length = bytes.iter().take(1 << 16).take_while(|b| body(b)).count();
    let Some(last) = text.get(at..at + length).and_then(|body| body.find("-----END ")) else {
        // Cut off: base64 has no spaces, so a line that has one is not part of it.
        let dense = bytes[..length].iter().take_while(|b| **b != b' ').count();
        let line = bytes[..dense].iter().rposition(|b| *b == b'\n');
        return at + line.filter(|_| bytes.get(dense) == Some(&b' ')).unwrap_or(dense);
    };
    let line = text[at + last + 9..].bytes();
    at + last + 9 + line.take_while(|b| b.is_ascii_uppercase() || matches!(b, b' ' | b'-')).count()
}

/// Every kind of credential that is known by its form.
pub(crate) const PROVIDERS: &[CredentialKind] = &[
    // Keys and signed tokens of any issuer.
    provider_anywhere(
        "private-key",
        PEM,
        r"-----BEGIN (?:[A-Z0-9]{1,16} ){0,4}PRIVATE KEY(?: BLOCK)?-----",
    ),
    provider_anywhere(
        "private-key",
        "putty-user-key-file-",
        r"PuTTY-User-Key-File-[23]:[^\x00]{0,4000}?Private-MAC: [0-9a-f]{40,64}",
    ),
    provider_token("age-key", "age-secret-key-1", r"AGE-SECRET-KEY-1[0-9A-Z]{40,80}"),
    provider_token(
        "jwt",
        "eyj",
        r"eyJ[A-Za-z0-9_-]{8,600}\.(?:eyJ[A-Za-z0-9_-]{2,4000}\.[A-Za-z0-9_-]{8,64}|[A-Za-z0-9_-]{0,700}\.[A-Za-z0-9_-]{8,64}\.[A-Za-z0-9_-]{2,4000}\.[A-Za-z0-9_-]{8,64})",
    ),
    provider_token(
        "bearer-token",
        "bearer ",
        r"(?i:bearer) +[A-Za-z0-9._~+/-]{0,64}[0-9][A-Za-z0-9._~+/-]{15,300}=*",
    ),
    provider_token(
        "basic-auth",
        "basic ",
        r"(?i:basic) +[A-Za-z0-9+/]{0,32}[0-9A-Z+/][A-Za-z0-9+/]{11,512}={0,2}",
    ),
    // Clouds.
    provider_token("aws-key", "akia", r"AKIA[A-Z2-7]{16}(?-u:\b)"),
    provider_token("aws-key", "asia", r"ASIA[A-Z2-7]{16}(?-u:\b)"),
    provider_token("aws-key", "abia", r"ABIA[A-Z2-7]{16}(?-u:\b)"),
    provider_token("aws-key", "acca", r"ACCA[A-Z2-7]{16}(?-u:\b)"),
    provider_token("aws-key", "bedrock-api-key-", r"bedrock-api-key-[A-Za-z0-9+/=]{40,512}"),
    provider_token("aws-signature", "x-amz-signature=", r"(?i:x-amz-signature)=[0-9a-f]{64}"),
    provider_token("google-key", "aiza", r"AIza[A-Za-z0-9_-]{35}"),
    provider_token("google-token", "ya29.", r"ya29\.[A-Za-z0-9_-]{20,300}"),
    provider_token("google-token", "1//0", r"1//0[A-Za-z0-9_-]{40,200}"),
    provider_token("google-secret", "gocspx-", r"GOCSPX-[A-Za-z0-9_-]{24,40}"),
    provider_anywhere("azure-secret", "8q~", r"8Q~[A-Za-z0-9_~.-]{31,34}"),
    provider_anywhere("azure-secret", "7q~", r"7Q~[A-Za-z0-9_~.-]{31,34}"),
    provider_anywhere("azure-signature", "&sig=", r"&sig=[A-Za-z0-9%+/]{40,128}(?:=|%3D)?"),
    provider_anywhere("azure-signature", "?sig=", r"\?sig=[A-Za-z0-9%+/]{40,128}(?:=|%3D)?"),
    provider_token("alibaba-key", "ltai", r"LTAI[A-Za-z0-9]{17,26}(?-u:\b)"),
    provider_token("tencent-key", "akid", r"AKID[A-Za-z0-9]{28,36}(?-u:\b)"),
    provider_token("digitalocean-token", "dop_v1_", r"dop_v1_[a-f0-9]{64}"),
    provider_token("digitalocean-token", "doo_v1_", r"doo_v1_[a-f0-9]{64}"),
    provider_token("digitalocean-token", "dor_v1_", r"dor_v1_[a-f0-9]{64}"),
    provider_token("flyio-token", "fm2_", r"fm2_[A-Za-z0-9+/]{60,300}={0,3}"),
    provider_token("heroku-key", "hrku-", r"HRKU-[A-Za-z0-9_-]{36,80}"),
    provider_token("netlify-token", "nfp_", r"nfp_[A-Za-z0-9]{36,64}"),
    provider_token("scalingo-token", "tk-us-", r"tk-us-[A-Za-z0-9_-]{48}"),
    provider_token("databricks-token", "dapi", r"dapi[0-9a-f]{32}(?:-[0-9])?(?-u:\b)"),
    provider_token("vault-token", "hvs.", r"hvs\.[A-Za-z0-9_-]{24,200}"),
    provider_token("vault-token", "hvb.", r"hvb\.[A-Za-z0-9_-]{24,300}"),
    provider_anywhere("terraform-token", ".atlasv1.", r"\.atlasv1\.[A-Za-z0-9=_-]{60,70}"),
    provider_token("pulumi-token", "pul-", r"pul-[0-9a-f]{40}(?-u:\b)"),
    provider_token(
        "doppler-token",
        "dp.",
        r"dp\.(?:pt|st|ct|sa|scim|audit)\.(?:[a-z0-9_-]{2,35}\.)?[A-Za-z0-9]{40,44}",
    ),
    provider_token(
        "tailscale-key",
        "tskey-",
        r"tskey-[a-z]{2,12}-[A-Za-z0-9]{8,32}(?:-[A-Za-z0-9]{16,64})?",
    ),
    provider_token(
        "kubernetes-token",
        "bootstrap-token-",
        r"bootstrap-token-[a-z0-9]{6}\.[a-z0-9]{16}",
    ),
    provider_token("onepassword-token", "ops_eyj", r"ops_eyJ[A-Za-z0-9+/=_-]{100,300}"),
    // Code and packages.
    provider_token("github-token", "ghp_", r"ghp_[A-Za-z0-9]{30,255}"),
    provider_token("github-token", "gho_", r"gho_[A-Za-z0-9]{30,255}"),
    provider_token("github-token", "ghu_", r"ghu_[A-Za-z0-9]{30,255}"),
    provider_token("github-token", "ghs_", r"ghs_[A-Za-z0-9]{30,255}"),
    provider_token("github-token", "ghr_", r"ghr_[A-Za-z0-9]{30,255}"),
    provider_token(
        "github-token",
        "github_pat_",
        r"github_pat_[A-Za-z0-9]{20,30}_[A-Za-z0-9]{40,255}",
    ),
    provider_token("gitlab-token", "glpat-", r"glpat-[A-Za-z0-9_-]{20,300}"),
    provider_token("gitlab-token", "glptt-", r"glptt-[0-9a-f]{40}"),
    provider_token("gitlab-token", "gldt-", r"gldt-[A-Za-z0-9_-]{20,64}"),
    provider_token("gitlab-token", "glrt-", r"glrt-[A-Za-z0-9_-]{20,64}"),
    provider_token("gitlab-token", "glcbt-", r"glcbt-[A-Za-z0-9]{1,5}_[A-Za-z0-9_-]{20,64}"),
    provider_token("gitlab-token", "gr1348941", r"GR1348941[A-Za-z0-9_-]{20,64}"),
    provider_token("bitbucket-token", "atbb", r"ATBB[A-Za-z0-9]{24,36}(?-u:\b)"),
    provider_token("atlassian-token", "atatt3", r"ATATT3[A-Za-z0-9_=-]{60,300}"),
    provider_token("atlassian-token", "atctt3", r"ATCTT3[A-Za-z0-9_=-]{60,300}"),
    provider_token("npm-token", "npm_", r"npm_[A-Za-z0-9]{36}(?-u:\b)"),
    provider_token("pypi-token", "pypi-ageich", r"pypi-AgEI[A-Za-z0-9_-]{50,300}"),
    provider_token("pypi-token", "pypi-agenc", r"pypi-AgEN[A-Za-z0-9_-]{50,300}"),
    provider_token("crates-io-token", "cio", r"cio[A-Za-z0-9]{32}(?-u:\b)"),
    provider_token("rubygems-key", "rubygems_", r"rubygems_[0-9a-f]{48}"),
    provider_token("clojars-token", "clojars_", r"CLOJARS_[A-Za-z0-9]{60}"),
    provider_token("nuget-key", "oy2", r"oy2[a-z0-9]{43}(?-u:\b)"),
    provider_token("docker-token", "dckr_pat_", r"dckr_pat_[A-Za-z0-9_-]{20,64}"),
    provider_token("docker-token", "dckr_oat_", r"dckr_oat_[A-Za-z0-9_-]{20,64}"),
    provider_token("artifactory-key", "akcp", r"AKCp[A-Za-z0-9]{60,80}"),
    provider_token("buildkite-token", "bkua_", r"bkua_[0-9a-f]{40}"),
    provider_token("circleci-token", "ccipat_", r"CCIPAT_[A-Za-z0-9]{20,30}_[0-9a-f]{40}"),
    provider_token("sonar-token", "squ_", r"squ_[0-9a-f]{40}"),
    provider_token("sonar-token", "sqp_", r"sqp_[0-9a-f]{40}"),
    provider_token("prefect-key", "pnu_", r"pnu_[A-Za-z0-9]{36}"),
    provider_token("expo-token", "expo_", r"expo_[A-Za-z0-9_-]{40}"),
    // Models.
    provider_token("openrouter-key", "sk-or-", r"sk-or-(?:v[0-9]-)?[A-Za-z0-9_-]{20,256}"),
    provider_token("anthropic-key", "sk-ant-", r"sk-ant-[A-Za-z0-9_-]{20,256}"),
    provider_token("openai-key", "sk-proj-", r"sk-proj-[A-Za-z0-9_-]{20,256}"),
    provider_token("openai-key", "sk-svcacct-", r"sk-svcacct-[A-Za-z0-9_-]{20,256}"),
    provider_token("openai-key", "sk-admin-", r"sk-admin-[A-Za-z0-9_-]{20,256}"),
    provider_token(
        "api-key",
        "sk-",
        r"sk-(?:[A-Za-z]{0,12}[0-9][A-Za-z0-9]{18,128}|[A-Za-z0-9]{32,128}(?-u:\b))",
    ),
    provider_token("huggingface-token", "hf_", r"hf_[A-Za-z0-9]{34,40}(?-u:\b)"),
    provider_token("huggingface-token", "api_org_", r"api_org_[A-Za-z]{34}(?-u:\b)"),
    provider_token("replicate-token", "r8_", r"r8_[A-Za-z0-9]{37,40}(?-u:\b)"),
    provider_token("groq-key", "gsk_", r"gsk_[A-Za-z0-9]{48,60}"),
    provider_token("perplexity-key", "pplx-", r"pplx-[A-Za-z0-9]{40,64}"),
    provider_token("xai-key", "xai-", r"xai-[A-Za-z0-9]{60,100}"),
    provider_token("nvidia-key", "nvapi-", r"nvapi-[A-Za-z0-9_-]{60,80}"),
    provider_token("fireworks-key", "fw_", r"fw_[A-Za-z0-9]{22,40}(?-u:\b)"),
    provider_token("tavily-key", "tvly-", r"tvly-(?:dev-|prod-)?[A-Za-z0-9]{24,48}"),
    provider_token("langsmith-key", "lsv2_", r"lsv2_(?:pt|sk)_[0-9a-f]{32}_[0-9a-f]{10}"),
    provider_token(
        "langfuse-key",
        "sk-lf-",
        r"sk-lf-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}",
    ),
    // Talk and mail.
    provider_token(
        "slack-token",
        "xox",
        r"xox[abceoprs](?:\.xox[bp])?-[A-Za-z-]{0,40}[0-9][A-Za-z0-9-]{9,300}",
    ),
    provider_token(
        "slack-token",
        "xapp-",
        r"xapp-[0-9]-[A-Z0-9]{5,20}-[0-9]{8,20}-[a-f0-9]{30,128}",
    ),
    provider_token(
        "slack-webhook",
        "hooks.slack.com/",
        r"hooks\.slack\.com/(?:services|workflows|triggers)/[A-Za-z0-9+/]{30,200}",
    ),
    provider_token(
        "discord-webhook",
        "discord.com/api/webhooks/",
        r"discord\.com/api/webhooks/[0-9]{15,22}/[A-Za-z0-9_-]{40,100}",
    ),
    provider_token(
        "discord-webhook",
        "discordapp.com/api/webhooks/",
        r"discordapp\.com/api/webhooks/[0-9]{15,22}/[A-Za-z0-9_-]{40,100}",
    ),
    provider_anywhere(
        "teams-webhook",
        ".webhook.office.com/webhookb2/",
        r"\.webhook\.office\.com/webhookb2/[0-9a-f@-]{60,90}/IncomingWebhook/[0-9a-f]{32}/[0-9a-f-]{36}",
    ),
    provider_anywhere("telegram-token", ":aa", r":AA[A-Za-z0-9_-]{33}(?-u:\b)"),
    provider_token("twilio-key", "sk", r"SK[0-9a-f]{32}(?-u:\b)"),
    provider_token("sendgrid-key", "sg.", r"SG\.[A-Za-z0-9_-]{20,24}\.[A-Za-z0-9_-]{39,50}"),
    provider_token("mailgun-key", "key-", r"key-[0-9a-f]{32}(?-u:\b)"),
    provider_token("brevo-key", "xkeysib-", r"xkeysib-[0-9a-f]{64}-[A-Za-z0-9]{16}"),
    provider_token(
        "postmark-token",
        "x-postmark-server-token: ",
        r"(?i:x-postmark-server-token): [0-9a-f-]{36}",
    ),
    // Money and shops.
    provider_token("stripe-key", "sk_live_", r"sk_live_[A-Za-z0-9]{16,128}"),
    provider_token("stripe-key", "sk_test_", r"sk_test_[A-Za-z0-9]{16,128}"),
    provider_token("stripe-key", "rk_live_", r"rk_live_[A-Za-z0-9]{16,128}"),
    provider_token("stripe-key", "rk_test_", r"rk_test_[A-Za-z0-9]{16,128}"),
    provider_token("stripe-webhook-secret", "whsec_", r"whsec_[A-Za-z0-9+/=]{24,80}"),
    provider_token("square-token", "sq0", r"sq0(?:atp|csp|idp)-[A-Za-z0-9_-]{22,50}"),
    provider_token("shopify-token", "shp", r"shp(?:at|ca|pa|ss)_[A-Fa-f0-9]{32}(?-u:\b)"),
    provider_token("shippo-token", "shippo_", r"shippo_(?:live|test)_[0-9a-f]{40}"),
    provider_token("easypost-key", "ezak", r"EZAK[A-Za-z0-9]{54}"),
    provider_token(
        "paypal-token",
        "access_token$production$",
        r"access_token\$production\$[0-9a-z]{16}\$[0-9a-f]{32}",
    ),
    provider_token("duffel-token", "duffel_", r"duffel_(?:live|test)_[A-Za-z0-9_-]{43}"),
    provider_token("plaid-token", "access-production-", r"access-production-[0-9a-f-]{36}"),
    // Work and data.
    provider_token("linear-key", "lin_api_", r"lin_api_[A-Za-z0-9]{40}"),
    provider_token("notion-token", "ntn_", r"ntn_[A-Za-z0-9]{40,50}"),
    provider_token("notion-token", "secret_", r"secret_[A-Za-z0-9]{43}(?-u:\b)"),
    provider_token("airtable-token", "pat", r"pat[A-Za-z0-9]{14}\.[0-9a-f]{64}"),
    provider_token("figma-token", "figd_", r"figd_[A-Za-z0-9_-]{40,48}"),
    provider_token("postman-key", "pmak-", r"PMAK-[0-9a-f]{24}-[0-9a-f]{34}"),
    provider_token("dropbox-token", "sl.", r"sl\.(?:u\.)?[A-Za-z0-9_-]{130,300}"),
    provider_token("facebook-token", "eaa", r"EAA[A-Za-z0-9]{90,300}(?-u:\b)"),
    provider_token("supabase-key", "sbp_", r"sbp_[0-9a-f]{40}"),
    provider_token("supabase-key", "sb_secret_", r"sb_secret_[A-Za-z0-9_-]{20,60}"),
    provider_token(
        "planetscale-token",
        "pscale_",
        r"pscale_(?:tkn|pw|oauth)_[A-Za-z0-9_=-]{32,64}",
    ),
    provider_token("contentful-token", "cfpat-", r"CFPAT-[A-Za-z0-9_-]{43}"),
    provider_token("typeform-token", "tfp_", r"tfp_[A-Za-z0-9_=-]{40,64}"),
    provider_token("readme-key", "rdme_", r"rdme_[a-z0-9]{60,80}"),
    // Watching.
    provider_token("sentry-token", "sntrys_", r"sntrys_eyJ[A-Za-z0-9+/=_-]{60,400}"),
    provider_token("sentry-token", "sntryu_", r"sntryu_[0-9a-f]{64}"),
    provider_token("grafana-token", "glsa_", r"glsa_[A-Za-z0-9]{32}_[0-9A-Fa-f]{8}"),
    provider_token("grafana-token", "glc_", r"glc_[A-Za-z0-9+/]{32,400}={0,2}"),
    provider_token("newrelic-key", "nrak-", r"NRAK-[A-Z0-9]{27}"),
    provider_token("newrelic-key", "nrii-", r"NRII-[A-Za-z0-9_-]{32}"),
    provider_token("dynatrace-token", "dt0", r"dt0[a-z]01\.[A-Z0-9]{24}\.[A-Z0-9]{64}"),
    provider_token("honeycomb-key", "hcaik_", r"hcaik_[A-Za-z0-9]{58}"),
];
