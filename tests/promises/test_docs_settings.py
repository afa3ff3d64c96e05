from pathlib import Path

from service.cli.check import document
from service.settings import ROWS, variables

ROOT = Path(__file__).parents[2]


def test_the_page_of_settings_is_the_one_of_the_rows():
    page = (ROOT / "docs" / "settings.md").read_text()
    assert page == document(), "run: python -m service check --document > docs/settings.md"


def test_every_setting_has_a_sentence_and_a_name_of_its_own():
    names = [name for row in ROWS for name in variables(row)]
    assert len(names) == len(set(names))
    for row in ROWS:
        assert row.metadata["sentence"].endswith("."), row.name
