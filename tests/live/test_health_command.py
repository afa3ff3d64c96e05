from service.cli import health
from tests.live.server import Server


def test_health_is_0_when_ready_and_1_when_not(server, tmp_path, capsys):
    assert health.main(["--url", server.url]) == 0
    assert "ready" in capsys.readouterr().out
    (tmp_path / "broken.onnx").write_bytes(b"no model")
    with Server(tmp_path, models=tmp_path, wait="/v2/health/live") as unready:
        assert health.main(["--url", unready.url]) == 1
    assert "broken.onnx" in capsys.readouterr().out
