"""The allowlist: accepted and refused paths, and that a file outside is never reached or revealed."""

import os
import re
import socket
import threading
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sandbox.errors import PathMissing, PathRefused
from sandbox.workspace import RESERVED, Workspace, WorkspacePath, Workspaces, open_file, open_folder

SECRET = b"the secret of somebody else"


@pytest.fixture
def root(tmp_path):
    folder = tmp_path / "ws"
    (folder / "sub/deep").mkdir(parents=True)
    (folder / "a.tif").write_bytes(b"raster")
    (folder / "sub/b.tif").write_bytes(b"other")
    (folder / RESERVED).mkdir()
    (folder / RESERVED / "undo.tif").write_bytes(b"kept")
    return folder


@pytest.fixture
def outside(tmp_path):
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "secret.tif").write_bytes(SECRET)
    return folder


@pytest.fixture
def allowed(root):
    return Workspaces((Workspace.at(root, writable=True),))


def refusal(allowed, text):
    with pytest.raises(PathRefused) as caught:
        allowed.input(text)
    return caught.value


@contextmanager
def without_root():
    """A user to whom permissions apply, if the tests run as root."""
    was = os.geteuid()
    if was:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(was)


# accepted paths


def test_relative_absolute_and_uri_paths_agree(allowed, root):
    relative = ("a.tif", "./a.tif", "sub/../a.tif", "sub//../sub/./../a.tif", "sub/deep/../../a.tif")
    absolute = (
        pattern.format(root / "a.tif") for pattern in ("{}", "file://{}", "file://localhost{}", "FILE://{}")
    )
    for text in (*relative, *absolute):
        located = allowed.input(text)
        assert (located.path, located.relative) == (root / "a.tif", PurePosixPath("a.tif"))
        assert located.identity.size == len(b"raster")


@pytest.mark.claim("paths.inside")
def test_uri_is_decoded_once_and_path_never(allowed, root):
    for name in ("a b%20.tif", "ä #?%.tif"):
        (root / name).write_bytes(b"odd")
        located = allowed.input(name)
        assert located.path == root / name
        assert allowed.input(located.uri) == allowed.input(str(located)) == located
    assert allowed.input(f"file://{root}/a%20b%2520.tif").path == root / "a b%20.tif"
    with pytest.raises(PathMissing):
        allowed.input("a%20b%2520.tif")


@pytest.mark.claim("paths.inside")
def test_nothing_is_expanded_and_names_reach_255_bytes(allowed, root):
    longest = "ä" * 127 + "x"
    for name in ("~", "$HOME", "*", "{a,b}", longest):
        (root / name).write_bytes(b"")
        assert allowed.input(name).path == root / name
    for name in (longest + "x", "x" * 256):
        refusal(allowed, name)


def test_folders_and_workspace_itself_are_located(allowed, root):
    assert allowed.input("sub/").is_folder
    assert allowed.input(".").path == allowed.input(str(root)).path == root


def test_output_may_be_absent_but_not_its_folder(allowed):
    assert allowed.output("sub/new.tif").identity is None
    with pytest.raises(PathMissing):
        allowed.output("missing/new.tif")
    for wrong in ("a.tif/new.tif", "a.tif/", "a.tif/."):
        with pytest.raises(PathRefused):
            allowed.output(wrong)


def test_windows_path_is_refused_with_its_wsl_path(allowed, root, subtests):
    for text, in_wsl in (
        ("C:\\maps\\a b.tif", "/mnt/c/maps/a b.tif"),
        ("d:/maps/Straße.tif", "/mnt/d/maps/Straße.tif"),
        ("file:///C:/maps/a.tif", "/mnt/c/maps/a.tif"),
        ("\\\\wsl.localhost\\Ubuntu\\home\\me\\a.tif", "/home/me/a.tif"),
        ("\\\\wsl$\\Debian\\home\\me\\a.tif", "/home/me/a.tif"),
    ):
        with subtests.test(text=text):
            with pytest.raises(PathRefused, match=re.escape(repr(in_wsl))):
                allowed.output(text)
            with pytest.raises(PathRefused):
                allowed.input(text)
    (root / "c:\\a.tif").write_bytes(b"")
    assert allowed.input("./c:\\a.tif").path == root / "c:\\a.tif"


# refused paths


@pytest.mark.claim("paths.inside")
def test_it_is_refused(allowed, subtests):
    for text in (
        "", "..", "../", "../outside/secret.tif", "sub/../../outside/secret.tif", "sub/../../ws/a.tif", "/",
        "//", "/etc/passwd", "/proc/self/root/etc/passwd", "/dev/null", "a.tif\n", "a\n.tif", "a\0.tif",
        "\x1b[2Ja.tif", "a\x7f", "a\x85b", "a\u2028b", "\t", "\ud800.tif", "a\udcff", "a.tif/", "a.tif/.",
        "a.tif/..", "a.tif/../a.tif", "x/" * 2500, "/" + "x" * 5000, "file:", "file:a.tif", "file://",
        "file:///", "file://other.host/a.tif", "file://[/a.tif", "file:\n///a", "file:///etc/passwd",
        "file:///proc/self/environ", "file://localhost", "file://user@localhost/a.tif",
    ):  # fmt: skip
        with subtests.test(text=text):
            refusal(allowed, text)
            with pytest.raises(PathRefused):
                allowed.output(text)


def test_uri_with_extra_parts_or_host_is_refused(allowed, root, subtests):
    tails = "a.tif?x=1 a.tif#part a.tif? a.tif%00 a%0A.tif %2e%2e/outside/secret.tif %ff.tif".split()
    hosts = "other.host user@localhost localhost:80 127.0.0.1 %6cocalhost".split()
    for rest in (
        *(f"{root}/{tail}" for tail in (*tails, "a\n.tif")),
        *(f"{host}{root}/a.tif" for host in hosts),
    ):
        with subtests.test(rest=rest):
            refusal(allowed, f"file://{rest}")


@pytest.mark.claim("paths.inside")
def test_neighbour_with_same_prefix_is_outside(allowed, root, tmp_path):
    (tmp_path / "ws-evil").mkdir()
    (tmp_path / "ws-evil/secret.tif").write_bytes(SECRET)
    refusal(allowed, f"{root}-evil/secret.tif")
    refusal(allowed, "../ws-evil/secret.tif")


@pytest.mark.claim("paths.reserved-unreachable")
def test_server_folder_is_unreachable_but_name_free_elsewhere(allowed, root, subtests):
    for form in ("{}/undo.tif", "{}", "sub/../{}/undo.tif", "./{}/undo.tif"):
        for name in (RESERVED, RESERVED.upper(), ".Gdal-Mcp"):
            with subtests.test(form=form, name=name):
                refusal(allowed, form.format(name))
                with pytest.raises(PathRefused):
                    allowed.output(form.format(name))
    (root / "sub" / RESERVED).write_bytes(b"mine")
    assert allowed.input(f"sub/{RESERVED}").name == RESERVED


@pytest.mark.claim("paths.reserved-unreachable")
def test_output_cannot_become_inner_server_folder(allowed, root):
    (root / "sub" / RESERVED / "undo").mkdir(parents=True)
    for name in (f"sub/{RESERVED.upper()}", f"sub/{RESERVED}/undo/manifest.json", f"sub/{RESERVED}"):
        with pytest.raises(PathRefused):
            allowed.output(name)
    assert allowed.output("sub/.gdal-mcp.tif").identity is None


@pytest.mark.claim("paths.plain-files-only")
def test_only_files_and_folders_are_let_in(allowed, root):
    os.mkfifo(root / "pipe")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(root / "socket"))
    for name in ("pipe", "socket"):
        refusal(allowed, name)
        with pytest.raises(PathRefused):
            allowed.output(name)


def test_output_needs_a_name_and_writable_workspace(allowed, root, tmp_path):
    for text in (".", "sub/..", str(root)):
        with pytest.raises(PathRefused):
            allowed.output(text)
    archive = tmp_path / "archive"
    archive.mkdir()
    (archive / "old.tif").write_bytes(b"")
    mixed = Workspaces((*allowed.items, Workspace.at(archive, writable=False)))
    assert mixed.input(f"{archive}/old.tif").path == archive / "old.tif"
    for name in ("old.tif", "new.tif"):
        with pytest.raises(PathRefused):
            mixed.output(f"{archive}/{name}")


def test_folder_without_entry_permission_is_refused(allowed, root, tmp_path):
    for folder in (root, *root.parents):
        if folder.is_relative_to(tmp_path.parent.parent) and folder.stat().st_uid == os.geteuid():
            folder.chmod(0o755)
    (root / "sub").chmod(0o444)  # its names can be read, but not the files
    (root / "sub/deep").chmod(0o000)
    try:
        with without_root():
            refusal(allowed, "sub/b.tif")
            refusal(allowed, "sub/deep/x.tif")
    finally:
        (root / "sub").chmod(0o755)
        (root / "sub/deep").chmod(0o755)


# symlinks


def test_a_symlink_that_stays_inside_is_resolved_away(allowed, root):
    for number, target in enumerate(
        ("a.tif", "sub/../a.tif", "./a.tif", f"{root}/a.tif", f"{root}/sub/../a.tif")
    ):
        (root / f"link{number}").symlink_to(target)
        assert allowed.input(f"link{number}").relative == PurePosixPath("a.tif")


def test_parent_after_symlink_is_parent_of_target(allowed, root):
    (root / "jump").symlink_to("sub/deep")
    assert allowed.input("jump/../b.tif").path == root / "sub/b.tif"
    with pytest.raises(PathMissing):
        allowed.input("jump/../a.tif")


@pytest.mark.claim("paths.links-stay-inside")
@pytest.mark.parametrize(
    "target",
    [
        "{outside}/secret.tif", "../outside/secret.tif", "sub/../../outside/secret.tif",
        "{root}/../outside/secret.tif", "/etc/passwd", "/proc/self/environ", "/proc/self/root/etc/passwd",
        "/proc/self/fd/0", "/dev/null", ".gdal-mcp/undo.tif", "{root}/.gdal-mcp/undo.tif", "{root}-evil/x",
        "link.tif", "//etc/passwd", "a\nb",
    ],
)  # fmt: skip
def test_a_symlink_that_leads_elsewhere_is_refused(allowed, root, outside, target):
    (root / "a\nb").write_bytes(b"there, but with a name that is refused")
    (root / "link.tif").symlink_to(target.format(root=root, outside=outside))
    (root / "again.tif").symlink_to("link.tif")
    refusal(allowed, "link.tif")
    refusal(allowed, "again.tif")


@pytest.mark.claim("paths.links-stay-inside")
def test_symlinked_outside_folder_is_refused_with_contents(allowed, root, outside):
    for number, target in enumerate((outside, "..", "/", "/proc/self/cwd", ".gdal-mcp", "sub/../..")):
        (root / f"jump{number}").symlink_to(target)
        for tail in ("", "/secret.tif", "/undo.tif", "/etc/passwd", "/.."):
            refusal(allowed, f"jump{number}{tail}")
        with pytest.raises(PathRefused):
            allowed.output(f"jump{number}/new.tif")


def test_forty_symlinks_are_followed_but_loops_are_not(allowed, root):
    (root / "link0").symlink_to("a.tif")
    for number in range(1, 41):
        (root / f"link{number}").symlink_to(f"link{number - 1}")
    assert allowed.input("link39").path == root / "a.tif"
    refusal(allowed, "link40")
    (root / "left").symlink_to("right")
    (root / "right").symlink_to("left")
    refusal(allowed, "left")
    (root / "self").symlink_to("self/x")
    refusal(allowed, "self")


@pytest.mark.claim("paths.links-stay-inside")
def test_an_output_is_never_written_through_a_symlink(allowed, root):
    for number, target in enumerate(("a.tif", "gone.tif", "/etc/passwd", "sub")):
        (root / f"out{number}").symlink_to(target)
        with pytest.raises(PathRefused):
            allowed.output(f"out{number}")


def test_a_symlink_into_another_workspace_is_that_workspaces(allowed, root, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    (other / "b.tif").write_bytes(b"")
    (root / "jump").symlink_to(other)
    refusal(allowed, "jump/b.tif")
    both = Workspaces((*allowed.items, Workspace.at(other, writable=False)))
    assert both.input("jump/b.tif").workspace.root == other
    with pytest.raises(PathRefused):  # the other is read-only, whichever way it is reached
        both.output("jump/new.tif")


# files outside are never revealed


@pytest.mark.claim("paths.refusals-tell-nothing")
@pytest.mark.parametrize("form", ["{}", "file://{}", "link", "../outside/{name}"])
def test_refusal_is_the_same_for_existing_and_absent(allowed, root, outside, form):
    refusals = []
    for name in ("secret.tif", "absent.tif"):
        link = root / "link"
        link.unlink(missing_ok=True)
        link.symlink_to(outside / name)
        error = refusal(allowed, form.format(outside / name, name=name))
        assert str(outside) not in str(error) or form != "link"
        refusals.append((type(error), str(error)))
    assert refusals[0] == refusals[1]


# workspaces


def test_partly_shown_workspace_reveals_nothing_else(root):
    (root / "sub/deep/in.tif").write_bytes(b"raster")
    (root / "sub/deep/link.tif").symlink_to("../b.tif")
    shown = Workspace(root, writable=True, shown=(PurePosixPath("sub/deep"),))
    partial = Workspaces((shown,))
    assert partial.input(f"{root}/sub/deep/in.tif").relative == PurePosixPath("sub/deep/in.tif")
    assert partial.output("sub/deep/new.tif").identity is None
    hidden = "a.tif no.tif sub sub/b.tif sub/no.tif sub/deeper . sub/deep/.. sub/deep/../b.tif sub/deep/link.tif no/x"
    refusals = set()
    for text in hidden.split():
        with pytest.raises(PathRefused) as caught:
            partial.input(text)
        refusals.add((type(caught.value), str(caught.value)))
        with pytest.raises(PathRefused):
            partial.output(text)
    assert len(refusals) == 1


def test_workspaces_must_not_nest(root):
    outer, inner = (Workspace.at(path, writable=True) for path in (root, root / "sub"))
    for pair in ((outer, inner), (inner, outer), (outer, Workspace.at(root, writable=False))):
        with pytest.raises(PathRefused):
            Workspaces(pair)
    with pytest.raises(PathRefused):
        Workspaces(())


def test_workspace_accepts_the_spelling_of_its_setting(root, tmp_path):
    (tmp_path / "alias").symlink_to(root)
    allowed = Workspaces((Workspace.at(tmp_path / "alias", writable=True),))
    for spelling in (tmp_path / "alias/a.tif", root / "a.tif"):
        assert allowed.input(str(spelling)).path == root / "a.tif"
    (tmp_path / "alias").unlink()
    (tmp_path / "alias").symlink_to("/etc")
    with pytest.raises(PathMissing):  # the root was determined when the workspace was created
        allowed.input(str(tmp_path / "alias/passwd"))


@pytest.mark.claim("paths.workspaces-are-plain")
def test_the_systems_own_folders_are_no_workspaces(subtests):
    for place in "/ /etc /usr/share /proc/self /dev /sys /tmp /home /root /var /run /bin /lib".split():
        with subtests.test(place=place), pytest.raises(PathRefused):
            Workspace.at(place, writable=False)


@pytest.mark.claim("paths.workspaces-are-plain")
def test_what_cannot_be_a_workspace_is_refused(root, tmp_path, subtests):
    for link, target in (("loop", "loop"), ("innocent", "/etc")):
        (tmp_path / link).symlink_to(target)
    unshown = ["new\nline", "\x1b[2J", "line\u2028separator", "\udcff"]
    for name in unshown:
        (tmp_path / name).mkdir()
    for place in ("missing", "ws/a.tif", f"ws/{RESERVED}", "loop", "innocent", "nul\0", *unshown):
        with subtests.test(place=place), pytest.raises(PathRefused):
            Workspace.at(f"{tmp_path}/{place}", writable=True)


@pytest.mark.claim("paths.races-lost")
def test_workspace_replaced_by_symlink_is_not_entered(allowed, root, outside):
    root.rename(root.with_name("moved"))
    root.symlink_to(outside)
    refusal(allowed, "secret.tif")


# later use


@pytest.mark.claim("paths.races-lost")
def test_file_that_became_something_else_is_not_opened(allowed, root, outside):
    located = allowed.input("a.tif")
    (root / "a.tif").unlink()
    with pytest.raises(PathMissing), open_file(located):
        pass
    (root / "a.tif").symlink_to(outside / "secret.tif")
    with pytest.raises(PathRefused), open_file(located):
        pass
    (root / "a.tif").unlink()
    os.mkfifo(root / "a.tif")
    with pytest.raises(PathRefused), open_file(located):  # and does not wait for a writer
        pass


@pytest.mark.claim("paths.races-lost")
def test_folder_that_became_symlink_is_not_opened(allowed, root, outside):
    located = allowed.input("sub/b.tif")
    (root / "sub").rename(root / "was")
    (root / "sub").symlink_to(outside)
    with pytest.raises(PathRefused), open_file(located):
        pass
    with pytest.raises(PathRefused), open_folder(located.workspace, located.relative.parent):
        pass


def test_descriptors_are_closed_whatever_happens(allowed, root):
    before = set(os.listdir("/proc/self/fd"))
    for text in ("a.tif", "sub/b.tif", "sub/deep/x", "missing/x", "a.tif/x", RESERVED):
        try:
            with open_file(allowed.input(text)):
                pass
        except PathRefused:
            pass
    assert set(os.listdir("/proc/self/fd")) == before


# arbitrary texts

_TARGETS = tuple(".. / /etc /proc/self/root a sub sub/.. sub/../.. loop .gdal-mcp ../outside sub/in".split())
_PIECES = st.sampled_from(
    "a b sub in .. . / link0 link3 link11 outside secret .gdal-mcp loop file:// file: %2e%2e %2f ~ etc passwd proc self".split()
    + ["", "\0", "cwd", "root", "ws", "{root}"]
)  # fmt: skip
_TEXTS = st.one_of(
    st.text(max_size=40),
    st.lists(_PIECES, max_size=12).map("/".join),
    st.lists(_PIECES, max_size=12).map("".join),
    st.tuples(st.just("{root}/"), st.lists(_PIECES, max_size=8).map("/".join)).map("".join),
)


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    """A workspace full of misleading links, next to a secret."""
    top = tmp_path_factory.mktemp("hostile")
    (top / "ws/sub/in").mkdir(parents=True)
    (top / "ws" / RESERVED).mkdir()
    (top / "outside").mkdir()
    (top / "outside/secret").write_bytes(SECRET)
    (top / "ws/a").write_bytes(b"raster")
    (top / "ws/loop").symlink_to("loop")
    for number, target in enumerate(_TARGETS):
        (top / f"ws/link{number}").symlink_to(target)
        (top / f"ws/sub/link{number}").symlink_to(target)
        (top / f"ws/sub/in/link{number}").symlink_to(f"../link{number}")
    return top / "ws"


@pytest.mark.claim("paths.inside")
@settings(max_examples=600, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=_TEXTS, way=st.sampled_from(["input", "output"]))
def test_any_text_is_refused_or_leads_inside(hostile, text, way):
    allowed = Workspaces((Workspace.at(hostile, writable=True),))
    try:
        located = getattr(allowed, way)(text.replace("{root}", str(hostile)))
    except PathRefused:
        return
    assert isinstance(located, WorkspacePath)
    real = Path(os.path.realpath(located.path))
    assert real == located.path  # no link is left to follow
    assert real.is_relative_to(hostile)
    assert RESERVED not in real.relative_to(hostile).parts[:1]
    assert (located.identity is None) == (not real.exists())


@pytest.mark.claim("paths.races-lost")
@pytest.mark.timeout(60)
def test_race_between_folder_and_symlink_never_leaks(root, outside):
    """One thread swaps `sub` for a symlink to a secret and back, while this one locates and reads."""
    (root / "sub/secret.tif").write_bytes(b"public")
    (root / "evil").symlink_to(outside)
    allowed, done, swaps = Workspaces((Workspace.at(root, writable=True),)), threading.Event(), [0]

    def swap():
        while not done.is_set():
            os.rename(root / "sub", root / "aside")
            os.rename(root / "evil", root / "sub")
            os.rename(root / "sub", root / "evil")
            os.rename(root / "aside", root / "sub")
            swaps[0] += 1

    thread = threading.Thread(target=swap)
    thread.start()
    read, refused = set(), 0
    try:
        while not (read and refused > 50 and swaps[0] > 200):
            try:
                with open_file(allowed.input("sub/secret.tif")) as file:
                    read.add(os.read(file, 100))
            except PathRefused:
                refused += 1
    finally:
        done.set()
        thread.join()
    assert read == {b"public"}
