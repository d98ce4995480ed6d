"""A version is published whole to a registry of this script's own, and twice the same.

Usage: release.py, in the environment of the Helm engine, with buildah. Any programs stand in for the product's.
"""

import gzip
import hashlib
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile

import registry

TOP = os.path.abspath(os.path.join(os.path.dirname(__file__), "../.."))
SCRIPT = os.path.join(TOP, ".ci/release")
TAG = "0.0.0-test"
host = registry.start()


def manifest(name, reference):
    kind, data = registry.MANIFESTS[name, reference]
    return json.loads(data)


def blob(descriptor):
    data = registry.BLOBS[descriptor["digest"]]
    assert registry.digest(data) == descriptor["digest"]
    return data


def files(name, reference):
    """Everything in an image, and its configuration."""
    image, found = manifest(name, reference), {}
    for layer in image["layers"]:
        data = blob(layer)
        data = gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data
        with tarfile.open(fileobj=io.BytesIO(data)) as archive:
            for member in archive:
                if member.isfile():
                    found["/" + member.name.lstrip("/")] = archive.extractfile(member).read()
    return found, json.loads(blob(image["config"]))


def release(path, environment, *more):
    return subprocess.run([SCRIPT, f"{host}/{path}", TAG, *more], env=environment, capture_output=True, text=True)


with tempfile.TemporaryDirectory() as folder:
    at = lambda *parts: os.path.join(folder, *parts)
    for arch in ["amd64", "arm64"]:
        os.makedirs(at("built", arch))
        for part in ["operator", "agent"]:
            with open(at("built", arch, f"codebutler-{part}"), "w") as file:
                file.write(f"{part} for {arch}\n")
        with open(at("built", arch, "kubectl-codebutler"), "w") as file:
            file.write(f"plugin for {arch}\n")
    os.mkdir(at("bin"))
    with open(at("bin", "helm"), "w") as file:
        cli = os.path.join(TOP, "tests/clients/helm_cli.py")
        file.write(f'#!/bin/sh\nexec "{sys.executable}" -B "{cli}" "$@"\n')
    os.chmod(at("bin", "helm"), 0o755)
    with open(at("storage.conf"), "w") as file:
        file.write(f'[storage]\ndriver = "vfs"\ngraphroot = "{at("graph")}"\nrunroot = "{at("run")}"\n')
    plain = {
        **os.environ, "PATH": f"{at('bin')}:{os.environ['PATH']}", "PLAIN_HTTP": "1", "CONTAINERS_STORAGE_CONF": at("storage.conf"),
        "PLUGIN_URL": "https://releases.example.com",
    }
    environment = {**plain, "BINARIES": at("built")}
    try:
        first = release("team", environment)
        assert first.returncode == 0, first.stdout + first.stderr
        assert "WORKSPACE_BASE" in first.stderr, first.stderr
        for part in ["operator", "agent"]:
            name = f"team/codebutler-{part}"
            images = {one["platform"]["architecture"]: one["digest"] for one in manifest(name, TAG)["manifests"]}
            assert sorted(images) == ["amd64", "arm64"], images
            for arch, digest in images.items():
                found, config = files(name, digest)
                assert (config["architecture"], config["os"]) == (arch, "linux"), config
                assert found[f"/usr/local/bin/codebutler-{part}"] == f"{part} for {arch}\n".encode()
                if part == "operator":
                    machine = {"amd64": 62, "arm64": 183}[arch]
                    assert int.from_bytes(found["/usr/bin/git"][18:20], "little") == machine, arch
                    assert found["/etc/ssl/certs/ca-certificates.crt"].startswith(b"-----BEGIN CERTIFICATE")
            [beside] = manifest(name, f"{TAG}-sbom")["manifests"]
            bill = json.loads(files(name, beside["digest"])[0]["/sbom.cdx.json"])
            assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
            known = {component["purl"]: component for component in bill["components"]}
            tokio = [purl for purl in known if purl.startswith("pkg:cargo/tokio@")]
            assert len(tokio) == 1 and len(known[tokio[0]]["hashes"][0]["content"]) == 64, tokio
            # What the other one needs, and tests, is not in it.
            has = lambda crate: any(purl.startswith(f"pkg:cargo/{crate}@") for purl in known)
            assert has("kube") == (part == "operator") and not has("octocrab")
            git = sorted(purl.partition("?")[2] for purl in known if purl.startswith("pkg:deb/debian/git@"))
            assert git == (["arch=amd64", "arch=arm64"] if part == "operator" else []), git
            refs = [component["bom-ref"] for component in bill["components"]]
            assert len(set(refs)) == len(refs)
        charts = {name for name, _ in registry.MANIFESTS if name.startswith("team/charts/")}
        assert charts == {"team/charts/codebutler", "team/charts/codebutler-crds"}, charts

        # The plugin: archives, and what krew reads with their checksums.
        def plugin():
            with open(os.path.join(TOP, f"target/release-{TAG}/krew.yaml")) as file:
                manifest = file.read()
            archives = {}
            for arch in ["amd64", "arm64"]:
                name = f"kubectl-codebutler-linux-{arch}.tar.gz"
                with open(os.path.join(TOP, f"target/release-{TAG}", name), "rb") as file:
                    archives[arch] = file.read()
                with tarfile.open(fileobj=io.BytesIO(archives[arch])) as archive:
                    names = ["LICENSE", "kubectl-codebutler", "kubectl_complete-codebutler"]
                    assert sorted(archive.getnames()) == names
                    program = archive.getmember("kubectl-codebutler")
                    assert (program.mode, program.uid) == (0o755, 0)
                    assert archive.extractfile(program).read() == f"plugin for {arch}\n".encode()
                told = f"arch: {arch}}}}}\n      uri: https://releases.example.com/{name}\n"
                told += f'      sha256: "{hashlib.sha256(archives[arch]).hexdigest()}"\n      bin: kubectl-codebutler\n'
                assert told in manifest, manifest
            assert f"version: v{TAG}\n" in manifest and '"000' not in manifest, manifest
            return archives
        packed = plugin()

        # Again, elsewhere: digest by digest the same.
        again = release("other", {**environment, "CHARTS": "none"})
        assert again.returncode == 0, again.stdout + again.stderr
        assert plugin() == packed
        lines = lambda said, path: [line.removeprefix(f"{host}/{path}/") for line in said.stdout.splitlines() if "@sha256:" in line]
        images = [line for line in lines(first, "team") if line.startswith("codebutler-")]
        assert len(images) == 4 and images == lines(again, "other"), (first.stdout, again.stdout)

        # What can't be done is said before anything is published.
        for arguments, values, told in [
            (["https://registry.example.com/team"], environment, "HOST/PATH"),
            ([], environment, "HOST/PATH"),
            ([f"{host}/none", "--platform", "linux/s390x"], environment, "linux/amd64 and linux/arm64 are"),
            ([f"{host}/none"], {**environment, "BINARIES": at("bin")}, "has no codebutler-operator"),
            ([f"{host}/none"], {**environment, "PACKAGES": "http://127.0.0.1:9/debian", "KEPT": at("kept")}, "PACKAGES"),
        ]:
            wrong = subprocess.run([SCRIPT, *arguments], env=values, capture_output=True, text=True)
            assert wrong.returncode != 0 and told in wrong.stderr, (arguments, wrong.stderr)
        libraries = subprocess.run(["rustc", "--print", "sysroot"], capture_output=True, text=True).stdout.strip()
        if not os.path.exists(f"{libraries}/lib/rustlib/aarch64-unknown-linux-gnu"):
            wrong = release("none", plain, "--platform=linux/arm64")
            assert wrong.returncode != 0 and "rustup target add aarch64-unknown-linux-gnu" in wrong.stderr, wrong.stderr
        assert not any(name.startswith("none/") for name, _ in registry.MANIFESTS)
    finally:
        for tag in [TAG, "0.1.0"]:
            shutil.rmtree(os.path.join(TOP, f"target/release-{tag}"), ignore_errors=True)
