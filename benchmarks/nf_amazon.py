"""Builds what nf-amazon 2.9.0 has for S3, with which the experiment `nextflow` lets Nextflow 24.10.0 stage by itself.

    python benchmarks/nf_amazon.py               from the sources on GitHub
    python benchmarks/nf_amazon.py REPOSITORY    from any repository that git can clone and that has the tag v24.10.0

What that needs comes from Maven Central. What runs tasks at Amazon, sends mail and signs in with SSO is left out: it
has no part in staging, and needs much more. One condition is that of Nextflow 25.04: as it was, the plugin asks Amazon
where the bucket is also if the server is one's own, which takes more than a second each time where no way leads there.
"""

from __future__ import annotations

import importlib
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from processes import ROOT

sys.path[1:1] = [str(ROOT / "plugins" / "nextflow" / "tests"), str(ROOT / "tests")]
programs: Any = importlib.import_module("programs")
"""How the tests of the plugin nf-edt run Nextflow."""

AMAZON: Path = programs.FOLDER / "nf-amazon-2.9.0"
"""The plugin, unpacked."""
REPOSITORY = "https://github.com/nextflow-io/nextflow"
TAG = f"v{programs.OLDEST.name}"
PARTS = ("nio/**/*.java", "config/*.groovy", "util/*.groovy", "Amazon*.groovy", "AwsClient*.groovy")
PARTS_OF_BATCH = ("batch/AwsBatchFileCopyStrategy.groovy", "batch/AwsOptions.groovy")
"""Which those for S3 name."""
SSO = "SsoCredentialsProviderV1"
CLIENTS = r"^    (@Memoized\n    )?(synchronized )?(AmazonEC2|AWSBatch|AmazonECS) get.*?^    \}\n"
OF_EXECUTOR = r"^    AwsOptions\( AwsBatchExecutor.*?^    \}\n"
WITHOUT = (
    re.compile(rf"^import (com\.amazonaws\.services\.(batch|ec2|ecs)|.*{SSO}).*\n", re.MULTILINE),
    re.compile(f"{CLIENTS}|{OF_EXECUTOR}", re.MULTILINE | re.DOTALL),
    re.compile(rf",\s*new {SSO}\(\w*\)"),
)
"""What is left out of the classes that make clients and read options."""
EXTENSIONS = "nextflow.cloud.aws.util.S3PathSerializer\nnextflow.cloud.aws.util.S3PathFactory\n"
MAIN = Path("src", "main", "nextflow", "cloud", "aws")
ASKS_AMAZON = "final boolean global = bucketName!=null;"
ASKS_ITS_SERVER = "final boolean global = bucketName!=null && !awsConfig.getS3Config().isCustomEndpoint();"
NEEDED = re.compile(r"^ *api \('([^:']+):(aws-java-sdk-(?:s3|iam|logs|sts)|jaxb-api):([^:']+)'\)", re.MULTILINE)
"""What its build asks for, of that what is for S3: group, artifact, version."""
POM = """<project xmlns="http://maven.apache.org/POM/4.0.0">
<modelVersion>4.0.0</modelVersion><groupId>edt</groupId><artifactId>nf-amazon</artifactId><version>2.9.0</version>
<dependencies>{}</dependencies></project>
"""


def main() -> int:
    if why := absence():
        print(f"nf-amazon is not built: {why}", file=sys.stderr)
        return 1
    if AMAZON.exists():
        print(f"{AMAZON.relative_to(ROOT)} is there")
        return 0
    part = AMAZON.with_name(f"{AMAZON.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    try:
        source = sources(part, sys.argv[1] if len(sys.argv) > 1 else REPOSITORY)
        libraries(source, part)
        compiled(source, part)
    except subprocess.CalledProcessError as error:
        print(f"nf-amazon is not built: {error.cmd[0]} failed with {error.returncode}, see above", file=sys.stderr)
        return 1
    shutil.copytree(source / "src" / "resources", part / "classes", dirs_exist_ok=True)
    (part / "classes" / "META-INF" / "extensions.idx").write_text(EXTENSIONS)
    shutil.rmtree(part / "source")
    part.rename(AMAZON)
    print(f"{AMAZON.relative_to(ROOT)}: built from {TAG}")
    return 0


def absence() -> str | None:
    """What it cannot be built without; `None` if all of that is there."""
    if missing := [program for program in ("git", "mvn", "java") if shutil.which(program) is None]:
        return f"not installed: {', '.join(missing)}"
    if not programs.OLDEST.folder.exists():
        return f"Nextflow {programs.OLDEST.name} is not there: `python plugins/nextflow/tests/install.py`"
    return None


def sources(part: Path, repository: str) -> Path:
    """Brings the sources of the plugin, and changes what is to be changed; returns their folder."""
    source = part / "source"
    clone = ["git", "clone", "-q", "--depth", "1", "--branch", TAG, "--sparse", "-c", "advice.detachedHead=false"]
    subprocess.run([*clone, repository, source], check=True)
    subprocess.run(["git", "-C", source, "sparse-checkout", "set", "plugins/nf-amazon"], check=True)
    plugin = source / "plugins" / "nf-amazon"
    aws = plugin / MAIN
    (aws / "util" / f"{SSO}.groovy").unlink()
    provider = aws / "nio" / "S3FileSystemProvider.java"
    text = provider.read_text()
    if text.count(ASKS_AMAZON) != 1:
        raise SystemExit(f"{provider}: the condition that is changed is not there as it was")
    provider.write_text(text.replace(ASKS_AMAZON, ASKS_ITS_SERVER))
    for changed in (aws / "AwsClientFactory.groovy", aws / "batch" / "AwsOptions.groovy"):
        text = changed.read_text()
        for without in WITHOUT:
            text = without.sub("", text)
        changed.write_text(text)
    return plugin


def libraries(source: Path, part: Path) -> None:
    """Brings what the plugin needs, and Nextflow has not."""
    (part / "lib").mkdir()
    names = ("groupId", "artifactId", "version")
    needed = [
        "".join(f"<{name}>{value}</{name}>" for name, value in zip(names, found, strict=True))
        for found in NEEDED.findall((source / "build.gradle").read_text())
    ]
    pom = part / "source" / "needed.xml"
    pom.write_text(POM.format("".join(f"<dependency>{one}</dependency>" for one in needed)))
    goal = "org.apache.maven.plugins:maven-dependency-plugin:3.9.0:copy-dependencies"
    options = [f"-DoutputDirectory={part / 'lib'}", "-DincludeScope=runtime", "-DexcludeArtifactIds=slf4j-api"]
    subprocess.run(["mvn", "-q", "-B", "-f", pom, goal, *options], check=True)


def compiled(source: Path, part: Path) -> None:
    """Compiles Groovy and Java together, with the compiler that Nextflow has."""
    (part / "classes").mkdir()
    jars = [*programs.OLDEST.folder.glob("*.jar"), *(part / "lib").glob("*.jar")]
    classes = ":".join(map(str, jars))
    files = [path for pattern in (*PARTS, *PARTS_OF_BATCH) for path in sorted((source / MAIN).glob(pattern))]
    compiler = ["java", "-cp", classes, "org.codehaus.groovy.tools.FileSystemCompiler", "-cp", classes, "-j"]
    subprocess.run([*compiler, "-d", part / "classes", *files], check=True)


if __name__ == "__main__":
    sys.exit(main())
