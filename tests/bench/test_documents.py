"""The pages say what the results say."""

from pathlib import Path

from bench.documents import DOCS, performance
from bench.knobs import HERE
from bench.scaling_doc import scaling

RESULTS = HERE / "results"


def test_the_performance_page_is_written_from_the_results() -> None:
    assert (DOCS / "performance.md").read_text() == performance(RESULTS), "write it again: make bench-docs"


def test_the_scaling_page_is_written_from_the_results() -> None:
    assert (DOCS / "scaling.md").read_text() == scaling(RESULTS), "write it again: make bench-docs"


def test_a_missing_result_leaves_a_page_without_it(tmp_path: Path) -> None:
    assert "## drain" not in performance(tmp_path)
