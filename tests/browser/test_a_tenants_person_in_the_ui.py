"""What a tenant's person does in Airflow's UI: log in, see their own DAG, trigger it by its form, read each learner's log,
see why a job waits."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from ffdl_ops.pipeline.services import now
from tests.support.rig import Rig, Run, eventually

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = [pytest.mark.slow, pytest.mark.browser]

MANIFEST = """
name: two digits learners
example: digits-pytorch
learners: 2
gpus: 0
framework: {name: pytorch}
"""
QUIET = ("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
         "--disable-component-update", "--disable-sync")  # fmt: skip


@pytest.fixture(scope="module")
def rig(platform: Any) -> Rig:
    """The session's platform."""
    return Rig(platform.settings)


@pytest.fixture
def page(platform: Any) -> Iterator[Page]:
    """A browser's page, logged in as the person of tenant `vision`."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=list(QUIET))
        page = browser.new_page(viewport={"width": 1400, "height": 1000}, base_url=platform.settings.airflow_url)
        page.set_default_timeout(60_000)
        page.goto("/")
        log_in(page, platform)
        page.get_by_text("Dags").first.wait_for()
        yield page
        browser.close()


def log_in(page: Page, platform: Any) -> None:
    """Log in, as the person of tenant `vision`, on the log-in page that is shown."""
    passwords = json.loads((platform.home / "secrets.json").read_text())["users"]
    page.fill("input[name=username]", "vision-user")
    page.fill("input[name=password]", passwords["vision-user"])
    page.keyboard.press("Enter")


def test_only_the_tenants_own_dag_is_shown(page: Page) -> None:
    page.goto("/dags")
    page.get_by_text("train__vision").first.wait_for()
    assert page.get_by_text("train__speech").count() == 0
    answer = page.request.get("/api/v2/dags/train__speech")
    assert answer.status in (401, 403, 404)


def test_a_job_is_triggered_by_the_form_and_each_learners_output_is_in_the_tasks_log(page: Page, rig: Rig) -> None:
    """Pitfall 28: the trigger button does nothing when a parameter of the form is an object."""
    known = {job.job_id for job in rig.ledger.jobs(tenant="vision", limit=500)}
    page.goto("/dags/train__vision")
    page.get_by_test_id("trigger-dag-button").click()
    page.get_by_text("Or: a whole manifest").click()
    page.fill("#element_manifest", MANIFEST)
    page.get_by_role("dialog").get_by_role("button", name="Trigger").last.click()

    def submitted() -> Any:
        return next((job for job in rig.ledger.jobs(tenant="vision", limit=500) if job.job_id not in known), None)

    job = eventually("the job is stored", submitted, within_s=60)
    assert job.user == "vision-user"
    run = Run(job.dag_id, job.run_id, job.job_id, "vision")
    ended = rig.wait_job(run, {"COMPLETED", "FAILED", "HALTED"}, within_s=240)
    assert ended.state == "COMPLETED", rig.story(run)
    page.goto(f"/dags/train__vision/runs/{job.run_id}/tasks/learners")
    page.get_by_text("[learner 2]").first.wait_for()
    page.get_by_text("[learner 1]").first.wait_for()
    page.goto(f"/dags/train__vision/runs/{job.run_id}/tasks/plan/details")
    link = page.get_by_role("link", name="MLflow run").first
    link.wait_for()
    assert str(ended.mlflow_run_id) in str(link.get_attribute("href"))


def test_a_waiting_jobs_task_leads_to_why_it_waits_and_the_page_follows_the_job(page: Page, rig: Rig) -> None:
    rig.ledger.close_platform("an upgrade until noon", "ann", now())
    try:
        run = rig.probe("vision", "--steps 1", gpus=1, gpu_type="V100")
        eventually("a reason", lambda: rig.ledger.waits(run.job_id))
        page.goto(f"/dags/{run.dag_id}/runs/{run.run_id}/tasks/admit/details")
        page.get_by_role("link", name="Why it waits").first.click()
        page.wait_for_url(f"**/ffdl/jobs/{run.job_id}/wait")
        page.get_by_role("heading", name=f"Why {run.job_id} waits").wait_for()
        page.get_by_text("Cause: closed").wait_for()
        page.get_by_text("an upgrade until noon").first.wait_for()
        page.set_viewport_size({"width": 360, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth") <= 360, "a phone scrolls down alone"
    finally:
        rig.ledger.open_platform("ann", now())
    # Nobody touches the page: it loads itself again until the job has its places.
    page.get_by_text("It does not wait").or_(page.get_by_text("It has ended")).wait_for()
    assert page.locator("meta[http-equiv=refresh]").count() == 0
    page.get_by_role("link", name="the run in Airflow").click()
    page.wait_for_url(f"**/dags/{run.dag_id}/runs/{run.run_id}")


def test_who_is_not_logged_in_logs_in_and_comes_back_to_the_page(page: Page, rig: Rig, platform: Any) -> None:
    run = rig.probe("vision", "--steps 1", gpus=0)
    eventually("the job is stored", lambda: rig.job(run))
    page.context.clear_cookies()
    page.goto(f"/ffdl/jobs/{run.job_id}/wait")
    log_in(page, platform)
    page.wait_for_url(f"**/ffdl/jobs/{run.job_id}/wait")
    page.get_by_text(run.job_id).first.wait_for()
