import type { Build, LiveDeploymentStatus } from '@mote/client'
import { Check, X } from 'lucide-react'
import { Spinner } from '../../ui/button.tsx'
import { cx } from '../../ui/cx.ts'
import { duration } from '../../ui/format.ts'
import { Card } from '../../ui/layout.tsx'
import { isOnTheWay, type Step, stepsOf } from './steps.ts'

export function Progress({ live, build }: { readonly live: LiveDeploymentStatus; readonly build: Build | undefined }) {
  const steps = stepsOf(live, build)
  const total = live.steps.reduce((sum, step) => sum + step.ms, 0)
  return (
    <Card
      title={isOnTheWay(live.status) ? 'Starting' : 'Start'}
      actions={total > 0 && <span className="text-xs text-muted tabular-nums">{duration(total)} on the host</span>}
    >
      <ol className="space-y-0" aria-label="Steps">
        {steps.map((step, index) => (
          <li
            key={step.name}
            aria-current={step.state === 'now' ? 'step' : undefined}
            className="relative flex items-center gap-3 pb-3 last:pb-0"
          >
            {index < steps.length - 1 && (
              <span
                aria-hidden="true"
                className={cx(
                  'absolute top-5 left-[9px] h-full w-px',
                  step.state === 'done' ? 'bg-good/40' : 'bg-line',
                )}
              />
            )}
            <Mark state={step.state} />
            <span className={cx('flex-1', step.state === 'next' ? 'text-faint' : 'font-medium')}>{step.name}</span>
            <span className="font-mono text-xs text-muted tabular-nums">
              {step.ms === undefined ? '' : duration(step.ms)}
            </span>
          </li>
        ))}
      </ol>
    </Card>
  )
}

const looks = {
  done: 'border-transparent bg-good-soft text-good',
  now: 'border-transparent bg-info-soft text-info',
  failed: 'border-transparent bg-bad-soft text-bad',
  next: 'border-line-strong bg-surface',
} as const satisfies Record<Step['state'], string>
const words = { done: 'done', now: 'now', failed: 'failed', next: 'to come' } as const

function Mark({ state }: { readonly state: Step['state'] }) {
  return (
    <span className={cx('relative grid size-[19px] shrink-0 place-items-center rounded-full border', looks[state])}>
      <span className="sr-only">{words[state]}: </span>
      {state === 'done' && <Check aria-hidden="true" size={12} strokeWidth={3} />}
      {state === 'failed' && <X aria-hidden="true" size={12} strokeWidth={3} />}
      {state === 'now' && <Spinner />}
    </span>
  )
}
