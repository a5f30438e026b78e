import type { App } from '@mote/client'
import { Choice } from '../../ui/form.tsx'
import { Card } from '../../ui/layout.tsx'
import { SettingsForm } from './settings-form.tsx'

const strategies = { rolling: 'Rolling', 'one-at-a-time': 'One at a time' } as const
type Strategy = keyof typeof strategies
const isStrategy = (value: string | undefined): value is Strategy => value !== undefined && value in strategies

/** Setting for whether old and new VMs of the app may run at the same time. */
export function StrategySetting({ app }: { readonly app: App }) {
  return (
    <Card title="Deployment strategy" lead="How the virtual machines of a new version replace the old ones.">
      <SettingsForm
        app={app}
        changes={values => {
          const chosen = values.text('strategy')
          return { strategy: isStrategy(chosen) ? chosen : app.strategy }
        }}
      >
        <Choice
          label="Strategy"
          name="strategy"
          defaultValue={app.strategy}
          hint="One at a time: an old virtual machine stops before a new one starts, so that no more run than you have set. With a single replica, requests wait meanwhile. Cannot be combined with a canary."
        >
          {Object.entries(strategies).map(([value, label]) => (
            <option key={value} value={value}>
              {label}
            </option>
          ))}
        </Choice>
      </SettingsForm>
    </Card>
  )
}
