! mpi_surrogate.f90: shows an MPI program that trains inside its own ranks, like mpi_surrogate.c. Two rings of ranks
! solve the heat equation with small explicit steps. One ring learns from its cells to make eight of these steps at
! once, while the other ring continues to simulate. Then the other ring makes the large step and measures its error.
program mpi_surrogate
  use, intrinsic :: iso_c_binding
  use, intrinsic :: iso_fortran_env, only: error_unit
  use mpi_f08
  use brigade
  implicit none

  ! A rank has `cells` cells, and on each side copies of `halo` cells of its neighbor, the reach of `small` steps.
  integer, parameter :: cells = 64, small = 8, halo = small, stencil_width = 2 * halo + 1, root = 0
  integer, parameter :: fields = 16, epochs = 20, other_steps = 200, large = 5
  real(c_float), parameter :: conduction = 0.25 ! k dt / dx^2

  type ring
    type(MPI_Comm) :: comm
    integer :: rank, size
  end type

  type(ring) :: world, own
  type(MPI_Comm) :: half
  real(c_float) :: stencil(stencil_width)
  logical :: is_trainer
  integer :: level

  ! Without `ierror` an error of MPI ends the program, as long as communicators have MPI's own error handler.
  call MPI_Init_thread(MPI_THREAD_FUNNELED, level)
  world = make_ring(MPI_COMM_WORLD)
  if (world%size < 2 .or. level < MPI_THREAD_FUNNELED) call fail('needs 2 ranks and MPI_THREAD_FUNNELED')
  is_trainer = world%rank < world%size / 2
  call MPI_Comm_split(MPI_COMM_WORLD, merge(1, 0, is_trainer), world%rank, half)
  own = make_ring(half)

  if (is_trainer) then
    call train(own, stencil)
  else
    call simulate(own, 'meanwhile')
  end if
  call MPI_Bcast(stencil, stencil_width, MPI_REAL, root, MPI_COMM_WORLD) ! rank 0 of the world is a trainer
  if (.not. is_trainer) call measure(own, stencil)
  call MPI_Barrier(MPI_COMM_WORLD)
  call simulate(world, 'afterward')

  call MPI_Comm_free(half)
  call MPI_Finalize()

contains

  subroutine fail(what)
    character(*), intent(in) :: what
    write (error_unit, '(2a)') 'mpi_surrogate: ', what
    call MPI_Abort(MPI_COMM_WORLD, 1)
  end subroutine

  ! ---- the simulation ----

  function make_ring(comm) result(r)
    type(MPI_Comm), intent(in) :: comm
    type(ring) :: r
    r%comm = comm
    call MPI_Comm_rank(comm, r%rank)
    call MPI_Comm_size(comm, r%size)
  end function

  ! Sets heat that differs from cell to cell, and is the same for any number of ranks.
  subroutine begin_field(r, number, field)
    type(ring), intent(in) :: r
    integer, intent(in) :: number
    real(c_float), intent(out) :: field(1 - halo:cells + halo)
    integer(c_int64_t) :: noise
    integer :: i, turn
    field = 0
    do i = 1, cells
      noise = modulo(int(r%rank * cells + i, c_int64_t) * 69069 + number * 1327217885_c_int64_t, 2147483647_c_int64_t)
      do turn = 1, 3
        noise = modulo(noise * 48271, 2147483647_c_int64_t)
      end do
      field(i) = real(real(noise, c_double) / 1073741823.5d0 - 1, c_float)
    end do
  end subroutine

  subroutine exchange(r, count, field)
    type(ring), intent(in) :: r
    integer, intent(in) :: count
    real(c_float), intent(inout) :: field(1 - halo:cells + halo)
    integer :: left, right
    left = modulo(r%rank - 1, r%size)
    right = modulo(r%rank + 1, r%size)
    call MPI_Sendrecv(field(1), count, MPI_REAL, left, 0, field(cells + 1), count, MPI_REAL, right, 0, r%comm, &
                      MPI_STATUS_IGNORE)
    call MPI_Sendrecv(field(cells + 1 - count), count, MPI_REAL, right, 1, field(1 - count), count, MPI_REAL, left, 1, &
                      r%comm, MPI_STATUS_IGNORE)
  end subroutine

  subroutine small_steps(r, steps, field)
    type(ring), intent(in) :: r
    integer, intent(in) :: steps
    real(c_float), intent(inout) :: field(1 - halo:cells + halo)
    integer :: step
    do step = 1, steps
      call exchange(r, 1, field)
      field(1:cells) = field(1:cells) + conduction * (field(0:cells - 1) - 2 * field(1:cells) + field(2:cells + 1))
    end do
  end subroutine

  subroutine large_step(r, weights, field)
    type(ring), intent(in) :: r
    real(c_float), intent(in) :: weights(stencil_width)
    real(c_float), intent(inout) :: field(1 - halo:cells + halo)
    real(c_float) :: after(cells)
    integer :: i
    call exchange(r, halo, field)
    do i = 1, cells
      after(i) = dot_product(weights, field(i - halo:i + halo))
    end do
    field(1:cells) = after
  end subroutine

  function total_heat(r, field) result(total)
    type(ring), intent(in) :: r
    real(c_float), intent(in) :: field(1 - halo:cells + halo)
    double precision :: total, part
    part = sum(real(field(1:cells), c_double))
    call MPI_Allreduce(part, total, 1, MPI_DOUBLE_PRECISION, MPI_SUM, r%comm)
  end function

  ! ---- the training ----

  subroutine check(status, error)
    integer(c_int), intent(in) :: status
    type(bg_error), intent(in) :: error
    if (status /= BG_OK) call fail(bg_message(error))
  end subroutine

  ! Makes samples of this rank's cells: for each cell the cells around it, and its heat after the small steps. A run
  ! takes `fields` micro-batches of each replica, [field][replica] in C's order; a rank fills in those of its own
  ! replica.
  subroutine make_samples(r, x, y)
    type(ring), intent(in) :: r
    real(c_float), intent(inout) :: x(stencil_width, cells, 0:r%size - 1, fields), y(cells, 0:r%size - 1, fields)
    real(c_float) :: field(1 - halo:cells + halo)
    integer :: number, i
    do number = 1, fields
      call begin_field(r, number, field)
      call exchange(r, halo, field)
      do i = 1, cells
        x(:, i, r%rank, number) = field(i - halo:i + halo)
      end do
      call small_steps(r, small, field)
      y(:, r%rank, number) = field(1:cells)
    end do
  end subroutine

  ! Trains on the ring, in which each rank has one replica. All ranks of the ring call this subroutine, and each gets
  ! the stencil.
  subroutine train(r, weights)
    type(ring), intent(in) :: r
    real(c_float), intent(out) :: weights(stencil_width)
    real(c_float), allocatable, target :: x(:, :, :, :), y(:, :, :), losses(:)
    real(c_float), pointer :: found(:)
    type(c_ptr) :: transport, graph, options, plan, session
    type(bg_value) :: guess, loss, around, after
    type(bg_optimizer) :: adam
    type(bg_weight) :: weight
    type(bg_error) :: error
    integer :: epoch

    allocate (x(stencil_width, cells, 0:r%size - 1, fields), y(cells, 0:r%size - 1, fields), losses(r%size))
    call make_samples(r, x, y)
    call check(bg_transport_mpi_create_fortran(int(r%comm%MPI_VAL, c_int), transport, error), error)

    call check(bg_graph_create(graph, error), error)
    around = bg_graph_input(graph, bg_text('x'), bg_matrix(BG_FLOAT32, int(cells, c_int64_t), int(stencil_width, c_int64_t)))
    after = bg_graph_input(graph, bg_text('y'), bg_matrix(BG_FLOAT32, int(cells, c_int64_t), 1_c_int64_t))
    guess = bg_linear_layer(graph, bg_text('step'), around, 1_c_int64_t, .false._c_bool)
    loss = bg_mse_loss(graph, bg_text('loss'), guess, after, BG_LOSS_MEAN)
    call bg_graph_output(graph, bg_text('loss'), loss)

    call check(bg_run_options_create(c_null_ptr, options, error), error)
    call check(bg_run_options_set_transport(options, transport, error), error)
    call check(bg_run_options_set_text(options, bg_text('strategy'), bg_text('single'), error), error)
    call check(bg_run_options_set_integer(options, bg_text('device_iterations'), int(fields, c_int64_t), error), error)
    call check(bg_run_options_set_integer(options, bg_text('replicas'), int(r%size, c_int64_t), error), error)
    call check(bg_run_options_set_integer(options, bg_text('cores'), 1_c_int64_t, error), error)
    call check(bg_optimizer_parse(bg_text('adam'), 0.01_c_double, adam, error), error)
    call check(bg_plan_create_training(graph, loss, adam, bg_run_options_use(options), plan, error), error)
    call check(bg_session_create(plan, c_null_ptr, session, error), error)
    do epoch = 1, epochs
      call check(bg_session_run(session, [c_loc(x), c_loc(y)], [c_loc(losses)], error), error)
      if (r%rank == root .and. (epoch == 1 .or. modulo(epoch, 10) == 0)) &
        write (*, '(a, i2, a, es7.1)') 'epoch ', epoch, ': loss ', losses(1)
    end do
    call check(bg_weights_find(bg_session_weights(session), bg_text('step.weight'), weight, error), error)
    call c_f_pointer(weight%data, found, [stencil_width])
    weights = found

    call bg_session_destroy(session)
    call bg_plan_destroy(plan)
    call bg_run_options_destroy(options)
    call bg_graph_destroy(graph)
    call bg_transport_mpi_destroy(transport)
  end subroutine

  ! ---- the error of the large step ----

  ! Starts from a field that was not used for training, and prints the largest difference between large and small
  ! steps, relative to the largest heat.
  subroutine measure(r, weights)
    type(ring), intent(in) :: r
    real(c_float), intent(in) :: weights(stencil_width)
    real(c_float) :: exact(1 - halo:cells + halo), guess(1 - halo:cells + halo), part(2), largest(2)
    integer :: step
    call begin_field(r, fields + 1, exact)
    guess = exact
    call small_steps(r, large * small, exact)
    do step = 1, large
      call large_step(r, weights, guess)
    end do
    part = [maxval(abs(guess(1:cells) - exact(1:cells))), maxval(abs(exact(1:cells)))]
    call MPI_Reduce(part, largest, 2, MPI_REAL, MPI_MAX, root, r%comm)
    if (r%rank == root) write (*, '(i0, a, i0, a, es7.1, a)') large, ' large steps differ from ', large * small, &
      ' small ones by ', largest(1) / largest(2), ' of the heat'
  end subroutine

  subroutine simulate(r, when)
    type(ring), intent(in) :: r
    character(*), intent(in) :: when
    real(c_float) :: field(1 - halo:cells + halo)
    double precision :: before, after
    call begin_field(r, fields + 2, field)
    before = total_heat(r, field)
    call small_steps(r, other_steps, field)
    after = total_heat(r, field)
    if (r%rank == root) write (*, '(2a, i0, a, i0, 2a)') when, ': ', other_steps, ' small steps on ', r%size * cells, &
      ' cells, heat is ', merge('conserved', 'lost     ', abs(after - before) < 1d-2)
  end subroutine
end program
