import type { App } from '@mote/client'
import { Choice, Field } from '../../ui/form.tsx'
import { Card } from '../../ui/layout.tsx'
import { SettingsForm } from './settings-form.tsx'

const policies = { always: 'Always', 'on-failure': 'After a failure', never: 'Never' } as const
type Policy = keyof typeof policies
const isPolicy = (value: string | undefined): value is Policy => value !== undefined && value in policies

/** Settings for what happens when the app's program ends. */
export function Restarts({ app }: { readonly app: App }) {
  const { policy, max_restarts } = app.restart
  return (
    <Card title="Restarts" lead="What happens when the program ends. Takes effect with the next deploy.">
      <SettingsForm
        app={app}
        changes={values => {
          const chosen = values.text('restart.policy')
          return {
            restart: {
              policy: isPolicy(chosen) ? chosen : policy,
              max_restarts: values.number('restart.max_restarts') ?? null,
            },
          }
        }}
      >
        <div className="grid grid-cols-2 gap-3">
          <Choice
            label="Restart"
            name="restart.policy"
            defaultValue={policy}
            hint="A failure is an exit code other than 0. Otherwise the deployment stops when all its programs have ended."
          >
            {Object.entries(policies).map(([value, label]) => (
              <option key={value} value={value}>
                {label}
              </option>
            ))}
          </Choice>
          <Field
            label="Maximum restarts"
            name="restart.max_restarts"
            type="number"
            min={0}
            max={100}
            defaultValue={max_restarts ?? ''}
            hint="After this many restarts, the virtual machine counts as crashed. Empty: the default of the installation."
          />
        </div>
      </SettingsForm>
    </Card>
  )
}
