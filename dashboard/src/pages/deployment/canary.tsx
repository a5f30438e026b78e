import type { LiveDeploymentStatus } from '@mote/client'
import { Card, Fact, Facts } from '../../ui/layout.tsx'
import { Ago } from '../../ui/time.tsx'

type State = NonNullable<LiveDeploymentStatus['canary']>['state']
const words = {
  running: 'Gets a share of the requests',
  passed: 'Passed: it got all requests',
  failed: 'Failed: the previous version kept serving',
  cancelled: 'Cancelled',
} as const satisfies Record<State, string>

export function Canary({ live: { canary } }: { readonly live: LiveDeploymentStatus }) {
  if (!canary) return null
  return (
    <Card title="Canary" lead={words[canary.state]}>
      <Facts>
        <Fact name="Share">{canary.percent} %</Fact>
        <Fact name="Failed requests">
          {canary.failed} of {canary.requests}
        </Fact>
        <Fact name="Error limit">{canary.max_error_percent} %</Fact>
        <Fact name={canary.state === 'running' ? 'All requests' : 'Ended'}>
          <Ago at={canary.ends_at} />
        </Fact>
      </Facts>
    </Card>
  )
}
