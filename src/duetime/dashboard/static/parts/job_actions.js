// Actions on a job, and their Undo.

import { act } from "../core/doing.js";
import { ask, post } from "../core/http.js";
import { may } from "../core/session.js";
import { html } from "../core/view.js";
import { askBack } from "./asking.js";

export const isOver = (job) => ["ENDED", "CANCELLED", "SUCCEEDED", "FAILED", "SKIPPED"].includes(job.status);
export const nameOf = (job) => job.name || job.key || job.task;

const path = (job, verb) => `/v1/jobs/${job.job_id}/${verb}`;

export const pause = (job, then) =>
  act(() => post(path(job, "pause")), `Paused ${nameOf(job)}`, { undo: () => post(path(job, "resume")), then });

export const resume = (job, then) =>
  act(() => post(path(job, "resume")), `Resumed ${nameOf(job)}`, { undo: () => post(path(job, "pause")), then });

export const trigger = (job, then) =>
  act(() => post(path(job, "trigger")), `Started an extra run of ${nameOf(job)}`, { then });

export async function cancel(job, then) {
  const text = "The job gets no further runs, and a running one is asked to stop. This cannot be undone.";
  if (await askBack({ title: `Cancel ${nameOf(job)}?`, text, yes: "Cancel the job", no: "Keep it" })) {
    await act(() => post(path(job, "cancel")), `Cancelled ${nameOf(job)}`, { then });
  }
}

export async function remove(job, then) {
  const text = "The job disappears from all lists. The history of its runs stays until its retention ends. This cannot be undone.";
  if (await askBack({ title: `Delete ${nameOf(job)}?`, text, yes: "Delete the job", no: "Keep it" })) {
    await act(() => ask("DELETE", `/v1/jobs/${job.job_id}`), `Deleted ${nameOf(job)}`, { then });
  }
}

/** The buttons for the job's state; none for a key that may only read. */
export function JobButtons({ job, then, tight = false, all = false }) {
  if (!may("control")) return null;
  const size = tight ? "tight" : "";
  const over = isOver(job);
  const name = html`<span class="hidden-words"> ${nameOf(job)}</span>`;
  const canPause = !over && (job.status === "ACTIVE" || (job.status === "PENDING" && !job.recurring));
  return html`<span class="buttons">
    ${canPause && html`<button class=${size} onClick=${() => pause(job, then)}>Pause${name}</button>`}
    ${job.status === "PAUSED" && html`<button class=${size} onClick=${() => resume(job, then)}>Resume${name}</button>`}
    ${(job.recurring || all) && !over && html`<button class=${size} onClick=${() => trigger(job, then)}>Run now${name}</button>`}
    ${all && !over && html`<a class="button" href="/jobs/${job.job_id}/edit">Edit</a>`}
    ${all && !over && html`<button class="danger" onClick=${() => cancel(job, then)}>Cancel</button>`}
    ${all && over && html`<button class="danger" onClick=${() => remove(job, then)}>Delete</button>`}
  </span>`;
}
