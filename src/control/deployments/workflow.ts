/**
 * The workflow of a deployment: runs its release command, starts its VMs next to the current deployment, lets them
 * serve a share of the requests as a canary if the app has one configured, switches the route, keeps as many VMs as the
 * app wants, and finally takes them down: superseded, stopped, failed or deleted.
 */
import { workflow } from '../../engine/workflow.ts'
import { canary } from './canary-phase.ts'
import * as ends from './end-phases.ts'
import { releasing } from './release-phase.ts'
import * as rollout from './rollout-phases.ts'
import { sleeping, suspending, waking } from './sleep.ts'
import type { Deployment } from './store.ts'
import * as store from './store.ts'

export const deploymentWorkflow = (deps: rollout.WorkflowDeps) =>
  workflow<Deployment>()({
    kind: 'deployment',
    edges: {
      building: ['rolling', 'releasing', 'failing', 'stopping'],
      releasing: ['rolling', 'draining', 'failing', 'stopping'],
      rolling: ['serving', 'canary', 'draining', 'failing', 'stopping'],
      canary: ['serving', 'draining', 'failing', 'stopping'],
      serving: ['suspending', 'draining', 'failing', 'stopping'],
      suspending: ['serving', 'sleeping', 'stopping'],
      sleeping: ['serving', 'waking', 'stopping'],
      waking: ['serving', 'sleeping', 'stopping'],
      draining: ['serving', 'rolling', 'releasing', 'stopping'],
      failing: ['rolling', 'releasing', 'stopping'],
      stopping: ['rolling', 'releasing'],
    },
    load: id => store.byId(deps.db, id),
    hold: (tx, d) => store.holdAsObserved(tx, d),
    preempt: d => (d.want === 'stopped' || d.want === 'deleted' || d.appWant === 'deleted' ? 'stopping' : undefined),
    phases: {
      building: rollout.building,
      releasing: step => releasing(deps, step),
      rolling: step => rollout.rolling(deps, step),
      canary: step => canary(deps, step),
      serving: step => rollout.serving(deps, step),
      suspending: step => suspending(step, deps.config),
      sleeping,
      waking,
      draining: ends.draining,
      failing: ends.failing,
      stopping: ends.stopping,
    },
  })
