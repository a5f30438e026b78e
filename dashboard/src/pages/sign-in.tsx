import type { AuthResponse } from '@mote/client'
import { Link, useNavigate, useSearch } from '@tanstack/react-router'
import { useState } from 'react'
import { api } from '../api/client.ts'
import { signedIn } from '../api/session.ts'
import { Button } from '../ui/button.tsx'
import { Field, Form } from '../ui/form.tsx'
import { Door } from '../shell/door.tsx'

interface Credentials {
  readonly email: string
  readonly password: string
}

/** Stores the session after a sign-in. @returns false if the second factor is still missing */
export function accept({ token, refresh_token }: AuthResponse): boolean {
  if (!token || !refresh_token) return false
  signedIn({ token, refresh_token })
  return true
}

export function SignIn() {
  const [first, setFirst] = useState<Credentials>()
  const { next } = useSearch({ from: '/signin' })
  const navigate = useNavigate()
  const enter = (answer: AuthResponse, credentials: Credentials) =>
    accept(answer) ? navigate({ href: next ?? '/apps', replace: true }) : setFirst(credentials)

  if (first)
    return (
      <Door title="Second step" lead="Enter the code of your authenticator, or one of your recovery codes.">
        <Form
          wide
          submit="Sign in"
          send={async values => enter(await api.login({ body: { ...first, code: values.text('code') } }), first)}
        >
          <Field label="Code" name="code" required autoFocus autoComplete="one-time-code" inputMode="text" mono />
        </Form>
        <Button look="quiet" className="mt-2 w-full" onClick={() => setFirst(undefined)}>
          Back
        </Button>
      </Door>
    )
  return (
    <Door
      title="Sign in to Mote"
      lead={
        <>
          No account yet?{' '}
          <Link to="/signup" search={next ? { next } : {}} className="font-medium text-accent-text hover:underline">
            Sign up
          </Link>
        </>
      }
    >
      <Form
        wide
        submit="Sign in"
        send={async values => {
          const credentials = { email: values.text('email'), password: values.text('password') }
          await enter(await api.login({ body: credentials }), credentials)
        }}
      >
        <Field label="Email" name="email" type="email" required autoFocus autoComplete="username" />
        <Field label="Password" name="password" type="password" required autoComplete="current-password" />
      </Form>
      <Link to="/forgot" search={{}} className="mt-4 block text-center text-xs text-muted hover:underline">
        Forgot your password?
      </Link>
    </Door>
  )
}
