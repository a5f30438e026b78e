/** Where mailed links lead. The secret stands behind the `#`, which no server sees; nothing happens before a click. */
import { Link, useNavigate } from '@tanstack/react-router'
import { useState } from 'react'
import { api } from '../api/client.ts'
import { queryClient } from '../api/queries.ts'
import { Door } from '../shell/door.tsx'
import { ActionButton } from '../ui/action.tsx'
import { LinkButton } from '../ui/button.tsx'
import { Field, Form } from '../ui/form.tsx'
import { Card, Page } from '../ui/layout.tsx'

const secretOf = () => location.hash.slice(1)

export function VerifyEmail() {
  const [isDone, setDone] = useState(false)
  if (isDone)
    return (
      <Door title="Thank you" lead="Your e-mail address is confirmed.">
        <LinkButton to="/apps">Go on</LinkButton>
      </Door>
    )
  return (
    <Door title="Confirm your e-mail address" lead="This shows that mail to your address reaches you.">
      <Form
        wide
        submit="Confirm"
        send={async () => {
          await api.verifyEmail({ body: { token: secretOf() } })
          await queryClient.invalidateQueries({ queryKey: ['me'] })
          setDone(true)
        }}
      />
    </Door>
  )
}

export function ResetPassword() {
  const navigate = useNavigate()
  return (
    <Door title="Choose a new password" lead="Every session of your account ends.">
      <Form
        wide
        submit="Set the password"
        send={async values => {
          await api.resetPassword({ body: { token: secretOf(), new_password: values.text('password') } })
          await navigate({ to: '/signin', search: {}, replace: true })
        }}
      >
        <Field
          label="New password"
          name="password"
          type="password"
          required
          autoFocus
          minLength={8}
          autoComplete="new-password"
        />
      </Form>
    </Door>
  )
}

export function ForgotPassword() {
  const [isSent, setSent] = useState(false)
  return (
    <Door
      title="Reset your password"
      lead={isSent ? 'If there is such an account, a link is on its way to it.' : 'We mail you a link.'}
    >
      {isSent ? (
        <Link to="/signin" search={{}} className="font-medium text-accent-text hover:underline">
          Back to signing in
        </Link>
      ) : (
        <Form
          wide
          submit="Send the link"
          send={async values => {
            await api.forgotPassword({ body: { email: values.text('email') } })
            setSent(true)
          }}
        >
          <Field label="E-mail" name="email" type="email" required autoFocus autoComplete="username" />
        </Form>
      )}
    </Door>
  )
}

/** Behind the sign-in: the account that accepts is the one that is signed in. */
export function AcceptInvitation() {
  const navigate = useNavigate()
  return (
    <Page title="Invitation">
      <Card title="Join the project" lead="You become a member with the account that you are signed in with.">
        <ActionButton
          look="primary"
          done="You are a member now"
          act={async () => {
            const [invitation_id = '', secret = ''] = secretOf().split('.')
            await api.acceptInvitation({ invitation_id, body: { secret } })
            await queryClient.invalidateQueries({ queryKey: ['projects'] })
            await navigate({ to: '/apps', replace: true })
          }}
        >
          Accept
        </ActionButton>
      </Card>
    </Page>
  )
}
