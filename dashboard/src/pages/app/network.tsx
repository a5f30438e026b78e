import { useQuery } from '@tanstack/react-query'
import { ShieldCheck } from 'lucide-react'
import { queries } from '../../api/queries.ts'
import { Card } from '../../ui/layout.tsx'
import { Empty, Loaded } from '../../ui/states.tsx'
import { Domains } from './domains.tsx'
import { AddRule, RuleTable } from './rules.tsx'
import { useApp } from './use-app.ts'

export function Network() {
  const app = useApp()
  const rules = useQuery({
    ...queries.rules(app.name),
    refetchInterval: ({ state }) => (state.data?.some(rule => !rule.enforced) ? 1500 : 30_000),
  })
  return (
    <div className="space-y-4">
      <Domains app={app} />
      <Card
        flush
        title="Security rules"
        lead="For connections to and from the virtual machines. The first rule that fits decides."
        actions={rules.data && rules.data.length > 0 && <AddRule app_name={app.name} />}
      >
        <Loaded query={rules}>
          {all =>
            all.length === 0 ? (
              <Empty icon={ShieldCheck} title="No rules" action={<AddRule app_name={app.name} />}>
                Without rules, other machines of this project reach every port, and nobody else reaches any. The gateway
                always reaches port {app.port}.
              </Empty>
            ) : (
              <RuleTable app_name={app.name} rules={all} />
            )
          }
        </Loaded>
      </Card>
    </div>
  )
}
