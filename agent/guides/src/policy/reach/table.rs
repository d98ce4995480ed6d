//! Tables of programs that reach out, and nothing that decides. For the patterns see `matches`.

/// Programs that work alike.
pub(super) struct KnownProgram {
    pub names: &'static str,
    /// Options before a verb that take a value.
    pub values: &'static str,
    pub kind: ProgramKind,
}

/// Verbs by which a program changes something elsewhere.
pub(super) enum ProgramKind {
    Asks(&'static str),
    /// All but these; an empty pattern is the program without any.
    Spares(&'static str),
    /// Every use of it changes something elsewhere.
    Always,
}

const fn asks_for(names: &'static str, values: &'static str, verbs: &'static str) -> KnownProgram {
    KnownProgram { names, values, kind: ProgramKind::Asks(verbs) }
}

const fn spares_of(names: &'static str, values: &'static str, verbs: &'static str) -> KnownProgram {
    KnownProgram { names, values, kind: ProgramKind::Spares(verbs) }
}

/// Every program that is known.
pub(super) const KNOWN: &[KnownProgram] = &[
    // Registries of packages.
    asks_for(
        "npm pnpm bun",
        "--prefix -w --workspace --filter -F -C --dir --registry --loglevel --cwd --tag --otp --userconfig",
        "publish|unpublish|deprecate|undeprecate|access|team|hook|star|unstar, dist-tag|dist-tags add|rm, \
         owner|author add|rm, token create|revoke, profile set, org set|rm",
    ),
    asks_for(
        "yarn",
        "--cwd",
        "publish, npm publish, npm tag add|remove, tag add|remove, owner add|remove, workspaces foreach npm publish",
    ),
    asks_for("deno deployctl jsr", "-c --config", "publish|deploy"),
    asks_for(
        "cargo",
        "--manifest-path --color --config -Z -C",
        "publish|yank|owner|release|smart-release, workspaces|ws publish",
    ),
    asks_for("gem", "--host -k --key", "push|yank|owner"),
    asks_for(
        "poetry flit hatch pdm rye maturin twine anaconda uv",
        "-C --directory --project -r --repository",
        "publish|upload|register, python publish",
    ),
    asks_for("dotnet nuget", "", "nuget push|delete, push|delete"),
    asks_for("mix rebar3", "", "hex.publish|hex.owner|hex.retire, hex publish|retire"),
    asks_for("dart flutter pub", "", "pub publish|lish, publish|lish"),
    asks_for("pod", "", "trunk push|delete|deprecate, repo push"),
    asks_for(
        "lein stack cabal opam luarocks elm vsce ovsx pants swift nimble",
        "",
        "deploy|upload|publish|unpublish, package-registry publish",
    ),
    asks_for("lerna changeset rush nx-release", "", "publish|version-push, version"),
    asks_for(
        "goreleaser jreleaser",
        "-f --config",
        "release|full-release|publish|announce|upload|deploy",
    ),
    KnownProgram {
        names: "np release-it semantic-release cargo-release cpan-upload surge gh-pages now ssh-copy-id \
                sendmail mail mailx mutt swaks mosh lftp ftp codecov",
        values: "",
        kind: ProgramKind::Always,
    },
    // Registries of images.
    asks_for(
        "docker podman nerdctl docker-compose",
        "--config -l --log-level -f --file -p --project-name --env-file --profile --context -c -H --host",
        "push, image|manifest|plugin push, compose push, stack deploy|rm|up, service create|update|rm|scale|rollback, \
         swarm *, trust *, system prune, volume rm|prune, buildx imagetools create",
    ),
    asks_for(
        "buildah skopeo crane oras regctl",
        "",
        "push|copy|cp|sync|delete|tag|append|mutate|attach, image|manifest push|copy|delete",
    ),
    asks_for(
        "ko kaniko cosign notation",
        "",
        "publish|build|apply|create|resolve|sign|attest|attach",
    ),
    // Clusters.
    spares_of(
        "kubectl oc k kubecolor",
        "-n --namespace --context --kubeconfig --cluster --user -s --server --as -l --selector -o --output -f -k",
        ", get|describe|logs|explain|version|api-resources|api-versions|top|diff|kustomize|cluster-info|wait|events|\
         completion|options|plugin|help|whoami|port-forward|status, config *, auth can-i|whoami, rollout status|history, \
         krew *, project, projects",
    ),
    spares_of(
        "helm",
        "-n --namespace --kube-context --kubeconfig",
        ", template|lint|list|ls|get|show|inspect|status|history|search|version|env|dependency|dep|package|pull|fetch|\
         repo|create|verify|completion|diff|help|plugin|unittest|schema-gen, registry login|logout",
    ),
    asks_for(
        "helmfile",
        "-f --file -e --environment -l --selector -n",
        "apply|sync|destroy|delete",
    ),
    spares_of(
        "argocd flux",
        "-n --namespace --context",
        ", get|check|version|logs|export|tree|diff|build|stats|events|help|login|context, \
         app list|get|diff|logs|history|manifests|resources|wait, repo|cluster|proj list|get",
    ),
    asks_for(
        "skaffold tilt garden devspace werf okteto waypoint istioctl linkerd eksctl kops nomad consul",
        "",
        "run|deploy|delete|apply|dev|up|ci|purge|converge|dismiss|publish|release|destroy|install|uninstall|upgrade|\
         create|scale|drain|update|delete-*, job run|stop|revert|scale, kv put|delete, system gc",
    ),
    // Infrastructure and clouds.
    spares_of(
        "terraform tofu terragrunt",
        "",
        ", fmt|validate|plan|init|version|show|output|providers|graph|console|get|login|logout|help|hclfmt|modules|metadata, \
         state list|show|pull, workspace list|show|select",
    ),
    spares_of(
        "pulumi",
        "-s --stack -C --cwd",
        ", preview|version|about|logs|whoami|install|new|help|login|logout|console|convert|schema, \
         stack ls|output|select|history|graph, config get|set, config, plugin *, policy ls",
    ),
    spares_of(
        "aws",
        "--profile --region --output --endpoint-url --query --color --cli-read-timeout",
        ", help|configure, sts *, configure *, sso *, s3 ls|presign, * help|wait|ls|scan|query|get|tail, \
         * describe-*|list-*|get-*|batch-get-*|head-*|search-*|lookup-*|validate-*|estimate-*|filter-*|simulate-*|\
         test-*|check-*|wait, cloudformation package, eks update-kubeconfig",
    ),
    spares_of(
        "gcloud",
        "--project --account --region --zone --format --configuration",
        ", auth|config|info|version|help|components|init|topic|cheat-sheet, \
         @list|describe|get-value|get-iam-policy|read|print-access-token|search|tail|get-credentials|help",
    ),
    spares_of("gsutil", "", ", ls|cat|stat|du|version|hash|help"),
    spares_of("bq", "", ", ls|show|head|version|help"),
    spares_of(
        "az",
        "",
        ", login|logout|version|bicep|config|configure|find|help|interactive|feedback, \
         @list|show|list-*|show-*|get-credentials|get-access-token|validate|what-if|exists",
    ),
    spares_of(
        "doctl linode-cli hcloud scw ibmcloud oci openstack exo vultr-cli upctl",
        "",
        ", version|help|auth|login|config|context, @list|get|show|describe|ls|view",
    ),
    asks_for(
        "serverless sls sam cdk amplify eb copilot railway supabase kamal firebase wrangler netlify eas expo appcenter \
         modal cog sky cf dokku shipit packer convox flynn porter zeet",
        "-c --config -s --stage --project -e --env",
        "deploy|deploy:*|remove|rollback|delete|destroy|sync|publish|push|up|down|redeploy|release|submit|update|terminate|\
         build|setup|create|bootstrap|import|launch, secret put|delete|bulk, secrets set|unset, pages deploy|publish, \
         versions upload|deploy, sites:create|sites:delete|env:set|env:unset, functions:*|hosting:*|database:*|\
         firestore:*, functions deploy|delete, db push, r2|kv|queues|d1 *, app *, accessory *, projects create|delete, \
         svc|env|job|pipeline deploy|delete|init",
    ),
    spares_of(
        "heroku",
        "-a --app -r --remote",
        ", apps|info|logs|ps|config|config:get|releases|releases:info|addons|pg|pg:info|version|help|status|whoami|auth:*|\
         login|domains|features|stack|local|apps:info|buildpacks",
    ),
    spares_of(
        "fly flyctl",
        "-a --app -c --config",
        ", status|logs|info|version|help|releases|platform|doctor|checks|dashboard|history|docs, \
         apps|app|machine|machines|secrets|volumes|ips|regions|certs|services|image list|status|show, config show|validate, \
         auth *, machine status",
    ),
    spares_of(
        "vercel",
        "--cwd --scope -S --token -t",
        "ls|list|logs|inspect|whoami|dev|build|pull|help|link|login|logout|teams|switch|certs|domains, env ls|pull",
    ),
    spares_of(
        "vault",
        "-namespace -address",
        ", read|list|status|login|version|help|print|path-help, kv get|list, token lookup, secrets|auth|policy list|read",
    ),
    asks_for(
        "sentry-cli tx crowdin lokalise2 hf huggingface-cli dvc jf jfrog git-lfs s3cmd s4cmd rclone mc restic",
        "",
        "upload|push|upload-*|send-event, releases new|finalize|deploys|delete|set-commits, deploys new, sourcemaps upload|inject, \
         file upload, translation upload, repo|repo-files delete|create, rt u|upload|del|delete|cp|mv, put|sync|del|mb|rb|copy|move|delete|\
         purge|cp|mirror|rm|backup|forget",
    ),
];
