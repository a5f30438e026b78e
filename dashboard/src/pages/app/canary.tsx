import type { App } from '@mote/client'
import { useState } from 'react'
import { NumberField } from '../../ui/form.tsx'
import { Card } from '../../ui/layout.tsx'
import { Toggle } from '../../ui/toggle.tsx'
import { SettingsForm } from './settings-form.tsx'

const defaults = { percent: 10, seconds: 300, max_error_percent: 5, min_requests: 20 }

/** Settings for canaries: whether a new version gets only a share of the requests at first. */
export function Canary({ app }: { readonly app: App }) {
  const [isOn, setOn] = useState(app.canary !== null)
  const { percent, seconds, max_error_percent, min_requests } = app.canary ?? defaults
  return (
    <Card title="New versions" lead="Takes effect with the next deploy. Rollbacks always get all requests at once.">
      <div className="max-w-xl space-y-6">
        <Toggle
          label="Canary"
          hint="A new version first gets a share of the requests. If too many of them fail, the running version keeps serving."
          checked={isOn}
          onChange={setOn}
        />
        <SettingsForm
          key={String(isOn)}
          app={app}
          changes={values => ({
            canary: isOn
              ? {
                  percent: values.number('canary/percent') ?? percent,
                  seconds: values.number('canary/seconds'),
                  max_error_percent: values.number('canary/max_error_percent'),
                  min_requests: values.number('canary/min_requests'),
                }
              : { percent: 0 },
          })}
        >
          {isOn && (
            <div className="grid grid-cols-2 gap-3">
              <NumberField
                label="Share, percent"
                name="canary/percent"
                min={1}
                max={99}
                defaultValue={percent}
                hint="Percentage of the app's requests that the new version gets at first."
              />
              <NumberField
                label="Time, seconds"
                name="canary/seconds"
                min={10}
                max={86_400}
                defaultValue={seconds}
                hint="After this time, the new version gets all requests."
              />
              <NumberField
                label="Error limit, percent"
                name="canary/max_error_percent"
                min={0}
                max={100}
                defaultValue={max_error_percent}
                hint="The new version fails if more of its requests get a 5xx response or none."
              />
              <NumberField
                label="Minimum requests"
                name="canary/min_requests"
                min={1}
                max={1_000_000}
                defaultValue={min_requests}
                hint="The error limit applies from this number of requests on."
              />
            </div>
          )}
        </SettingsForm>
      </div>
    </Card>
  )
}
