import type { App } from '@mote/client'
import { useQuery } from '@tanstack/react-query'
import { queries } from '../../api/queries.ts'
import { Field } from '../../ui/form.tsx'
import { Card } from '../../ui/layout.tsx'
import { labelsOf, textOf } from './labels.ts'
import { SettingsForm } from './settings-form.tsx'

/** Settings for the hosts on which virtual machines of the app run. */
export function HostSettings({ app }: { readonly app: App }) {
  const known = useQuery(queries.hostLabels())
  const choice = (known.data ?? []).map(({ name, values }) => `${name}: ${values.join(', ')}`).join('; ')
  return (
    <Card title="Hosts" lead="Where virtual machines start, by the labels of hosts. Takes effect with the next deploy.">
      <SettingsForm
        app={app}
        changes={values => ({
          hosts: { require: labelsOf(values.text('hosts/require')), prefer: labelsOf(values.text('hosts/prefer')) },
        })}
      >
        <div className="grid grid-cols-2 gap-3">
          <Field
            label="Required"
            name="hosts/require"
            mono
            defaultValue={textOf(app.hosts.require)}
            placeholder="region=eu"
            hint="Labels that a host must have."
          />
          <Field
            label="Preferred"
            name="hosts/prefer"
            mono
            defaultValue={textOf(app.hosts.prefer)}
            placeholder="zone=eu-1"
            hint="Hosts with these labels are chosen first, as long as they have capacity."
          />
        </div>
        <p className="text-xs text-muted">
          {choice === '' ? 'Hosts have no labels that apps can use.' : `Labels of hosts: ${choice}.`}
        </p>
      </SettingsForm>
    </Card>
  )
}
